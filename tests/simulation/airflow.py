"""The watcher, failovers and repairs: the product's decisions in processes that stand for Airflow's."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.simulation.job import APPLICATION
from tests.simulation.kernel import EPOCH_S, Process
from tests.simulation.product import (
    CONNECTION,
    AssignmentError,
    ControlWriter,
    IncidentEvent,
    IncidentFinder,
    IncidentTrigger,
    InstanceState,
    StatefulStreamsError,
    TaskPlacement,
    Timeouts,
    answer_incidents,
    detect,
    from_plain,
    place_tasks,
    publisher,
    wrong_now,
)
from tests.simulation.threads import run_coroutine

TIMEOUTS = Timeouts(instance_s=5.0, start_s=15.0, stall_s=30.0)


class Watcher(IncidentTrigger):
    """The watcher, which may die between its answer and the event that tells it."""

    def __init__(self, airflow: Airflow, **arguments: Any) -> None:
        super().__init__(APPLICATION, **arguments)
        self._airflow = airflow

    def _answer(self, *given: Any) -> None:
        super()._answer(*given)
        self._airflow.answered()


class Airflow:
    """What acts on the application from outside."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.watcher: Process | None = None
        self.dies_answered_s: list[float] = []
        """For so long each the watcher is dead that has published an answer next."""
        self._runs = 0
        self._repairing = self._deploying = False

    def _process(self, kind: str) -> Process:
        self._runs += 1
        return Process(f"air/{kind}{self._runs}", self.world.airflow_clock_s)

    # -- the watcher ---------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """A triggerer begins to watch."""
        if self.watcher is not None and not self.watcher.dead:
            return
        self.watcher = self._process("watch")
        self.world.kernel.spawn(self.watcher, "watch", self._watch)

    def _watch(self) -> None:
        trigger = Watcher(
            self,
            instance_timeout_s=TIMEOUTS.instance_s,
            start_timeout_s=TIMEOUTS.start_s,
            stall_timeout_s=TIMEOUTS.stall_s,
            refire_after_s=10.0,
            num_standby_replicas=self.world.standbys,
        )
        events = trigger.run()
        while True:
            event = run_coroutine(events.__anext__())
            self.fail_over(event.payload)

    def answered(self) -> None:
        """A watcher has published an answer."""
        kernel = self.world.kernel
        kernel.passed("watcher answered")
        if self.dies_answered_s and self.watcher is not None:
            kernel.after(self.dies_answered_s.pop(0), self.watch)
            kernel.kill(self.watcher)
            kernel.sleep(0.0)

    # -- failovers -----------------------------------------------------------------------------------------------

    def fail_over(self, payload: Any = None, instance: str | None = None) -> None:
        """A run of the failover DAG: for an event, or by hand."""
        kernel = self.world.kernel
        process = self._process("failover")
        kernel.passed("failover")
        kernel.spawn(
            process, "failover", lambda: self._fail_over(process, payload, instance), kernel.random.uniform(0.05, 1.5)
        )

    def _fail_over(self, process: Process, payload: Any, instance: str | None) -> None:
        kernel = self.world.kernel
        events = () if payload is None else (from_plain(payload, IncidentEvent),)
        finder = IncidentFinder(
            answered_by=process.name,
            timeouts=TIMEOUTS,
            num_standby_replicas=self.world.standbys,
            by_hand=not events,
            events=events,
        )

        def answer(publisher: Any) -> Any:
            view = publisher.view
            incidents = [event.incident for event in events]
            if not events:
                found = detect(view.assignment, view.statuses, view.silent_for_s, TIMEOUTS, view.heard_at_ms)
                incidents = list(wrong_now(view, found, instance))
            return answer_incidents(view, incidents, finder, publisher.publish, self._now_ms)

        for _ in range(6):
            try:
                publisher.publish_by(CONNECTION, APPLICATION, answer, look=not events)
            except StatefulStreamsError as error:
                kernel.note("failover", type(error).__name__)
                kernel.passed(f"failover tried again: {type(error).__name__}")
                if isinstance(error, AssignmentError):
                    self.deploy()  # the run is red, and says that this is to be done
                kernel.sleep(2.0)
            else:
                break
        self.repair()

    def _now_ms(self) -> int:
        return int((EPOCH_S + self.world.kernel.now + self.world.airflow_clock_s) * 1000)

    # -- repairs -------------------------------------------------------------------------------------------------

    def repair(self, after_s: float = 0.0) -> None:
        """Start what is gone, give every task its standbys, even out the load, resolve what was answered."""
        if self._repairing:
            return
        self._repairing = True
        process = self._process("repair")
        process.on_death.append(self._repair_ended)
        self.world.kernel.spawn(process, "repair", lambda: self._repair(process), after_s)

    def _repair_ended(self) -> None:
        self._repairing = False

    def _repair(self, process: Process) -> None:
        kernel = self.world.kernel
        kernel.sleep(kernel.random.uniform(0.5, 3.0))
        for host in self.world.hosts.values():
            host.start()
        for _ in range(12):
            kernel.sleep(kernel.random.uniform(1.0, 3.0))
            try:
                placed = self.place(balance=self.world.balances)
            except StatefulStreamsError as error:
                kernel.note("repair", type(error).__name__)
                continue
            if not placed and self._resolve():
                break
        kernel.kill(process)

    def place(self, balance: bool) -> bool:
        """Publish where the tasks should be; returns whether that changed anything."""
        wanted = TaskPlacement(num_standby_replicas=self.world.standbys, balance=balance, reason="simulated")
        placed = publisher.publish_by(
            CONNECTION,
            APPLICATION,
            lambda publisher: place_tasks(publisher, wanted, lambda: self.world.job.tasks, TIMEOUTS),
        )
        self.world.kernel.note("placed", placed.assignment.generation, placed.changed)
        return placed.changed

    def _resolve(self) -> bool:
        """Mark what was answered as resolved, once every standby is warm."""
        view = self.world.view()
        if not self.world.all_warm(view):
            return False
        with ControlWriter(CONNECTION, APPLICATION) as writer:
            for record in view.unresolved_incidents:
                writer.write(dataclasses.replace(record, resolved_at_ms=self._now_ms()))
        return True

    def deploy(self, running: int | None = None) -> None:
        """The deploy DAG: wait until the instances, or so many of them, run, then assign."""
        if self._deploying:
            return
        self._deploying = True
        process = self._process("deploy")

        def run() -> None:
            kernel = self.world.kernel
            while True:
                kernel.sleep(kernel.random.uniform(0.3, 1.0) * self.world.size.start_s)
                statuses = self.world.view().statuses
                up = [s for s in statuses.values() if s.state is InstanceState.RUNNING]
                if len(up) < (running or len([host for host in self.world.hosts.values() if host.wanted])):
                    continue
                try:
                    self.place(balance=False)
                except StatefulStreamsError:
                    continue
                self._deploying = False
                return

        self.world.kernel.spawn(process, "deploy", run)
