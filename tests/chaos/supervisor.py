"""What the failover DAG and its watcher do, without Airflow: the product's own functions, called in the same order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.decide import decide
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import is_due
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.follower import ControlFollower
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.evaluation import Observation, Outcome
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.errors import BrokerUnreachableError, FencedError, StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection

# Busy with more than one run, a machine may take minutes to start an instance.
TIMEOUTS: Final = Timeouts(start_s=300.0)
_AFRESH_S: Final = 1.5
_NOT_ITS_LAST_WORD: Final = (InstanceState.STARTING, InstanceState.STOPPING)


class Supervisor:
    """Follows the control topics in a thread of its own; answers incidents, replaces instances, assigns standbys.

    Args:
        connection: the cluster.
        application_id: the application.
        tasks: of the application.
        names: the instances that should live.
        launch: launches an instance again and returns its incarnation.
        launcher_lives: whether the launcher of an instance does.
        log_file: what it saw and did.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        application_id: str,
        tasks: Sequence[TaskId],
        names: Collection[str],
        launch: Callable[[str], int],
        launcher_lives: Callable[[str], bool],
        log_file: Path,
    ) -> None:
        self._log_file = log_file
        self._connection, self._application_id, self._tasks = connection, application_id, tasks
        self._names, self._launch = names, launch
        self._launcher_lives = launcher_lives
        self.view = ControlView(application_id)
        self.counts: Counter[str] = Counter()
        """Incidents by kind, decisions by action, replacements, generations."""
        self.held: set[str] = set()
        """Instances that are not replaced for now."""
        self.balancing = False
        """Whether it evens out the load, as the deploy DAG does at its end."""
        self.quiet = threading.Lock()
        """While it is held, nothing else publishes or launches."""
        self._follower: ControlFollower | None = None
        self._launch_at: dict[str, float] = {}
        self._launched: dict[str, int] = {}
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(60)

    def deploy(self, name: str) -> None:
        """Launch one that was not there before."""
        self._launch_at[name] = time.monotonic()

    def silent_for_s(self) -> Mapping[str, float]:
        return {} if self._follower is None else self._follower.silent_for_s()

    def say(self, line: str) -> None:
        """For the log of the run."""
        with self._log_file.open("a") as log:
            log.write(f"{time.strftime('%H:%M:%S')} {time.monotonic() - self._began:7.2f} {line}\n")

    async def _run(self) -> None:
        while not self._stop.is_set():
            try:
                async with ControlFollower(self._connection, self._application_id) as follower:
                    await self._follow(follower)
            except (StatefulStreamsError, KafkaException) as error:
                self.say(f"not watching for now: {error}")
                await asyncio.sleep(1.0)

    async def _follow(self, follower: ControlFollower) -> None:
        while not self._stop.is_set():
            follower.silence.expect(_expected(follower.view), time.monotonic())
            silence = follower.silence.longest_s(self._names, time.monotonic())
            if (follower.hearing and silence <= TIMEOUTS.instance_s / 2) or await follower.confirm():
                self.view, self._follower = follower.view, follower
                try:
                    if self.quiet.acquire(blocking=False):
                        with contextlib.ExitStack() as held:
                            held.callback(self.quiet.release)
                            self._tick(follower.view, follower.silent_for_s())
                except (FencedError, BrokerUnreachableError, KafkaException) as error:
                    self.say(f"again: {error}")
            await follower.poll(0.2)

    def _tick(self, view: ControlView, silent_for_s: Mapping[str, float]) -> None:
        found = detect(view.assignment, view.statuses, silent_for_s, TIMEOUTS, view.heard_at_ms)
        running = [n for n in view.healthy(TIMEOUTS) if view.statuses[n].state is InstanceState.RUNNING]
        due = [incident for incident in found if is_due(incident, view, running, now_ms=now_ms())]
        for incident in due:
            self._answer(incident, {n for n, s in silent_for_s.items() if s > TIMEOUTS.instance_s}, due)
        self._mind_instances(view, silent_for_s)
        if not due:
            self._assign(view)

    def _answer(self, incident: Incident, silent: set[str], due: Collection[Incident]) -> None:
        """As `FailOverOperator` does."""
        detected_at_ms = time.time_ns() // 1_000_000
        publisher = AssignmentPublisher(self._connection, self._application_id)
        view = publisher.view
        if view.assignment is None:
            return
        gone = {i.instance for i in due if i.kind.of_instance} | silent
        healthy = [name for name in view.healthy(TIMEOUTS) if name not in gone]
        healthy = [n for n in healthy if view.statuses[n].state is InstanceState.RUNNING] or healthy
        if not is_due(incident, view, healthy, now_ms=now_ms()):
            return
        plan = decide(
            incident,
            view.assignment,
            view.statuses,
            healthy,
            answered=view.incidents,
            heard_at_ms=view.heard_at_ms,
            now_ms=now_ms(),
        )
        if plan.assignment is None and not plan.decisions:
            return
        publisher.publish(
            plan.assignment,
            IncidentRecord(
                incident=incident,
                answered_by="chaos",
                detected_at_ms=detected_at_ms,
                decided_at_ms=time.time_ns() // 1_000_000,
                generation=(plan.assignment or view.assignment).generation,
                plan=plan.decisions,
                no_candidate=plan.no_candidate,
                failed_at_ms=view.heard_at_ms.get(incident.instance),
            ),
        )
        self.counts[incident.kind.value] += 1
        self.counts.update(decision.action.value for decision in plan.decisions)
        generation = plan.assignment.generation if plan.assignment else "-"
        self.say(f"{incident.id}: {incident.evidence}; generation {generation}: {', '.join(map(str, plan.decisions))}")
        if incident.kind.needs_replacement and incident.instance in self._names:
            # One that was only silent may be heard again; one that ended is replaced at once.
            ended = incident.kind is IncidentKind.INSTANCE_ENDED
            self._launch_at[incident.instance] = time.monotonic() + (0.0 if ended else TIMEOUTS.instance_s)

    def _mind_instances(self, view: ControlView, silent_for_s: Mapping[str, float]) -> None:
        """As `DeployInstanceOperator` does: attach to the one that lives after all, else launch it again."""
        now = time.monotonic()
        for name, status in view.statuses.items():
            if name not in self._names:
                continue
            # What is reported of the one before the last launch says nothing of that one.
            if not status.state.alive and status.incarnation >= self._launched.get(name, 0):
                self._launch_at.setdefault(name, now)
        for name in self._names:
            known, launched = view.statuses.get(name), self._launched.get(name)
            # A launcher that is killed before its instance said anything tells of it by no topic, and neither does one
            # whose last word no broker took; nor does anyone miss an instance to which nothing is assigned.
            unheard = launched is not None and (known is None or known.incarnation < launched)
            unfinished = known is not None and known.state in _NOT_ITS_LAST_WORD
            if (unheard or unfinished) and not self._launcher_lives(name):
                self._launch_at.setdefault(name, now)
        for name in [n for n in self._launch_at if n not in self.held]:
            known = view.statuses.get(name)
            lives = known is not None and known.state.alive and silent_for_s.get(name, 0.0) < _AFRESH_S
            if lives or name not in self._names:
                del self._launch_at[name]
            elif now >= self._launch_at[name]:
                del self._launch_at[name]
                self._launched[name] = self._launch(name)
                self.counts["replaced"] += 1
                self.say(f"{name} launched again")

    def _assign(self, view: ControlView) -> None:
        """As `AssignTasksOperator` does: every task an active and a standby on the instances that run."""
        if self._wanted(view) is None:
            return
        publisher = AssignmentPublisher(self._connection, self._application_id)
        wanted = self._wanted(publisher.view)
        if wanted is not None:
            publisher.publish(wanted)
            self.counts["assigned"] += 1
            self.say(f"generation {wanted.generation}: {_places(wanted)}")

    def _is_warm(self, view: ControlView, assignment: Assignment) -> bool:
        """As `AssignTasksOperator` waits for it before each further step."""
        warm = StandbysWarm(num_standby_replicas=None, generation=assignment.generation)
        seen = Observation(view, silent_for_s=self.silent_for_s(), timeouts=TIMEOUTS)
        return warm.evaluate(seen).outcome is Outcome.MET

    def _wanted(self, view: ControlView) -> Assignment | None:
        """The next generation; None when the newest is as it should be."""
        # By the clock of who listens: by the broker's, all but the first to speak after an outage were silent.
        silent = self.silent_for_s()
        running = sorted(
            name
            for name, status in view.statuses.items()
            if name in self._names
            and status.state is InstanceState.RUNNING
            and silent.get(name, 0.0) <= TIMEOUTS.instance_s
        )
        previous = view.assignment
        if previous is None:
            if set(running) != set(self._names):
                return None
            previous = Assignment.empty(self._application_id, self._tasks)
        elif not running:
            return None
        previous = previous.limited_to(self._tasks)  # a job of an earlier version had fewer
        balance = self.balancing and self._is_warm(view, previous)
        if self.balancing and not balance and not _lacks(previous, running):
            return None  # what is too many may be on its way to be the active one
        following = previous.next(
            assign(previous, running, statuses=view.statuses, balance=balance),
            "as many standbys as there should be",
            carried_out=0,
        )
        return None if _places(following) == _places(previous) else following


def _expected(view: ControlView) -> list[str]:
    """Instances that are assigned and may speak, those among them of which nothing is known."""
    named = view.assignment.instances if view.assignment else ()
    return [name for name in named if name not in view.statuses or view.statuses[name].state.alive]


def _lacks(assignment: Assignment, running: Collection[str]) -> bool:
    """Whether a task has no active or no standby on the instances that run."""
    return any(
        task.active not in running or not set(task.standbys) & set(running) for task in assignment.tasks.values()
    )


def _places(assignment: Assignment) -> list[tuple[str | None, tuple[str, ...]]]:
    return [(task.active, task.standbys) for task in assignment.tasks.values()]
