"""Reports the instance's status: each heartbeat interval, and at once when a state changes."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from airflow_provider.common.clock import now_ms
from airflow_provider.common.host_name import host_name
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import Command
from airflow_provider.control.records.status import (
    DiskStatus,
    FaultStatus,
    InstanceState,
    InstanceStatus,
    ProcessStatus,
    Role,
    TaskState,
    TaskStatus,
    WorkStatus,
)
from airflow_provider.error_text import bounded, error_text
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.run_folder import Pulse, RunFolder
from airflow_provider.streaming.driver.slots.slot_report import as_planned
from airflow_provider.streaming.worker.tasks.plan import TaskPlan

log = logging.getLogger(__name__)

_SHORT_CHARS: Final = 200
_COMMANDS_KEPT: Final = 32
_COMMANDS_AT_ONCE: Final = 500
"""More are named by the heartbeats that follow: one has to fit into a Kafka record."""
_LAST_BEAT_S: Final = 10.0
_RATE_WINDOW_S: Final = 5.0


Seen = Callable[[int, TaskStatus, bool], TaskStatus]
"""A task of a slot, with what the driver sees of it; the last argument says whether the instance is paused."""


class FailureClock:
    """Counts from the first report of a task's failure, until it is reported otherwise, or in another generation.

    The caller passes the time in, so that nothing here knows a clock.
    """

    def __init__(self) -> None:
        self._since: dict[TaskId, tuple[int, float]] = {}

    def failed_s(self, task: TaskStatus, now: float) -> float | None:
        """Seconds for which a task has been failed; None where it has not."""
        if task.state is not TaskState.FAILED:
            self._since.pop(task.task, None)
            return None
        generation, since = self._since.get(task.task, (task.generation, now))
        if generation != task.generation:
            since = now
        self._since[task.task] = (task.generation, since)
        return round(now - since, 3)


class RecentRate:
    """How fast tasks have worked of late, each over five seconds. The caller passes the time in."""

    def __init__(self) -> None:
        self._seen: dict[TaskId, deque[tuple[float, int, WorkStatus]]] = {}

    def with_rates(self, task: TaskStatus, now: float) -> TaskStatus:
        """With what it did a second, 0 where that is nothing or counted anew, and what a record and a commit took."""
        seen, work = self._seen.setdefault(task.task, deque()), task.work
        if seen and (task.processed_records < seen[-1][1] or work.commits < seen[-1][2].commits):
            seen.clear()
        seen.append((now, task.processed_records, work))
        # Of what is older than the window, the newest: it is where the window begins.
        while now - seen[1 % len(seen)][0] >= _RATE_WINDOW_S:
            seen.popleft()
        then, processed, before = seen[0]
        records, commits, passed_s = task.processed_records - processed, work.commits - before.commits, now - then
        process_s, commit_s = work.process_s - before.process_s, work.commit_s - before.commit_s
        return dataclasses.replace(
            task,
            records_per_s=round(records / passed_s, 1) if passed_s > 0 else 0.0,
            work=dataclasses.replace(
                work,
                process_s=round(work.process_s, 3),
                commit_s=round(work.commit_s, 3),
                commits_per_s=round(commits / passed_s, 2) if passed_s > 0 else 0.0,
                process_latency_ns=round(1e9 * process_s / records, 1) if records else None,
                commit_latency_ms=round(1e3 * commit_s / commits, 2) if commits else None,
                # A worker that has nothing to do reports nothing newer.
                lateness_avg_ms=work.lateness_avg_ms if records else None,
                lateness_max_ms=work.lateness_max_ms if records else None,
            ),
        )


class StatusWriter(Protocol):
    """What is needed here of a `ControlWriter`."""

    def forget(self, value: Command) -> None: ...
    def send(self, value: InstanceStatus) -> None: ...
    def write(self, value: InstanceStatus) -> None: ...
    def check(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class _Done:
    """A command that lies in its topic until a heartbeat has told of it."""

    command: Command
    carried_out: bool
    refusal: str | None = None


class Heartbeat:
    """Owns what is reported of this instance.

    Any thread may report to it; a thread of its own sends.

    Args:
        writer: sends and stores statuses; closed by `end`.
    """

    def __init__(self, settings: InstanceSettings, writer: StatusWriter) -> None:
        self._settings = settings
        self._writer = writer
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._ended = threading.Event()
        self._slots: dict[int, tuple[TaskStatus, ...]] = {}
        self._plans: Mapping[int, Mapping[TaskId, TaskPlan]] = {}
        self._rates = RecentRate()
        self._failures = FailureClock()
        self._done: list[_Done] = []
        self._seen: Seen | None = None
        self.last: InstanceStatus | None = None
        """What was reported last; None before the first heartbeat."""
        self._refused: str | None = None
        self._status = InstanceStatus(
            application_id=settings.application_id,
            instance=settings.instance,
            incarnation=settings.incarnation,
            state=InstanceState.STARTING,
            process=ProcessStatus(host=host_name(), pid=os.getpid(), log_file=settings.log_file),
            disk=DiskStatus(settings.state_dir),
            heartbeat_interval_s=settings.heartbeat_interval_s,
            former=settings.former,
        )
        self._pulse = Pulse(RunFolder(Path(settings.run_dir)).pulse)
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Send the first one and go on."""
        self._thread.start()

    def check(self) -> None:
        """Raise where no heartbeat can ever be stored."""
        self._writer.check()

    def set_state(self, state: InstanceState) -> None:
        """Report the instance's state."""
        self._update(state=state)

    def set_ui_url(self, url: str | None) -> None:
        """Report where Spark's UI is; None where it is off."""
        self._update(process=dataclasses.replace(self._status.process, ui_url=url))

    def set_disk(self, disk: DiskStatus) -> None:
        """Report the disk of the stores, with the next heartbeat."""
        with self._lock:
            self._status = dataclasses.replace(self._status, disk=disk)

    def set_error(self, error: str | None) -> None:
        """Report what is wrong although the instance works; None for nothing."""
        self._update(error=None if error is None else bounded(error))

    def set_refused(self, why: str | None) -> None:
        """Report what the brokers refuse for now; None for nothing."""
        with self._lock:
            self._refused = None if why is None else bounded(why)
        self._due.set()

    def set_seen(self, seen: Seen | None) -> None:
        """Report each task as this says; it is called by the heartbeat's thread, and must not wait."""
        self._seen = seen

    def set_plans(self, generation: int, plans: Mapping[int, Iterable[TaskPlan]]) -> None:
        """Report the assignment that was handed to the slots, with what they have not yet said of it (`as_planned`)."""
        with self._lock:
            self._plans = {slot: {plan.task: plan for plan in of_slot} for slot, of_slot in plans.items()}
        self._update(generation=generation)

    def clear_plans(self) -> None:
        """The slots are told to stop: that they say nothing of a task any more is no promotion that hangs."""
        with self._lock:
            self._plans = {}

    def set_paused(self, paused: bool) -> None:
        """Report whether nothing is processed because a command asked for that."""
        self._update(paused=paused)

    def set_stop(self, hand_over: bool | None) -> None:
        """Report that a command stops the instance, and whether its tasks are to go to others (`Command.hand_over`)."""
        self._update(stop_hand_over=hand_over)

    def set_fault(self, fault: FaultStatus) -> None:
        """Report a drill's fault that lasts for a while, or its end."""
        self._update(fault=fault)

    def set_done(self, command: Command, refusal: str | None = None) -> None:
        """Report a command that was carried out, or why it was refused; it is removed from its topic after that."""
        self._remove(_Done(command, carried_out=True, refusal=refusal))

    def drop(self, command: Command) -> None:
        """Remove a command that is not to be carried out, or was before, after the next heartbeat."""
        self._remove(_Done(command, carried_out=False))

    def _remove(self, done: _Done) -> None:
        with self._lock:
            self._done.append(done)
        self._due.set()

    def report(self, slot: int, tasks: tuple[TaskStatus, ...]) -> None:
        """Report a slot's tasks; a changed state is sent at once."""
        with self._lock:
            before = {t.task: _sent_at_once(t) for t in self._slots.get(slot, ())}
            self._slots[slot] = tasks
        if before != {t.task: _sent_at_once(t) for t in tasks}:
            self._due.set()

    def end(self, state: InstanceState, error: Exception | None) -> None:
        """Send the last one, without tasks: stored before this returns.

        Args:
            error: why it ended; None when it was asked to.

        Raises:
            BrokerUnreachableError: it could not be stored.
        """
        self._ended.set()
        self._due.set()
        self._thread.join(_LAST_BEAT_S)
        with self._lock:
            self._slots.clear()
            kind = None if error is None else type(error).__name__
            text = None if error is None else bounded(f"{kind}: {error_text(error)}")
            self._status = dataclasses.replace(self._status, state=state, error=text, error_kind=kind)
        while self._tell(self._writer.write):
            pass
        self._writer.close()

    def _update(self, **changes: object) -> None:
        with self._lock:
            before = self._status
            self._status = dataclasses.replace(before, **changes)  # type: ignore[arg-type]
            changed = self._status != before
        if changed:
            self._due.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._beat()
            # For who looks on this host: also while no broker takes a heartbeat.
            self._pulse.beat(self._status.state)
            self._due.wait(self._settings.heartbeat_interval_s)
            self._due.clear()

    def _beat(self) -> None:
        try:
            if self._tell(self._send):
                self._due.set()
        except Exception:
            log.exception("a heartbeat cannot be sent; the next one is due in a moment")

    def _tell(self, send: Callable[[InstanceStatus], None]) -> bool:
        """Send a heartbeat, then remove the commands that it says are done, so that one or the other tells of each.

        Returns:
            Whether there are further commands to tell of.
        """
        with self._lock:
            done = self._done[:_COMMANDS_AT_ONCE]
            self._status = _with_done(self._status, done)
        self.last = self._current()
        send(self.last)
        for one in done:
            self._writer.forget(one.command)
        told = set(map(id, done))
        with self._lock:
            self._done = [one for one in self._done if id(one) not in told]
            return bool(self._done)

    def _send(self, current: InstanceStatus) -> None:
        """An instance that lives must not fall silent, whatever its tasks report."""
        try:
            self._writer.send(current)
        except Exception as error:
            log.warning("a heartbeat cannot be sent, sent with short error texts: %s", bounded(str(error)))
            self._writer.send(dataclasses.replace(current, tasks=tuple(map(_with_short_error, current.tasks))))

    def _current(self) -> InstanceStatus:
        with self._lock:
            tasks = [self._with_progress(slot, task) for slot, task in self._as_planned()]
            return dataclasses.replace(
                self._status,
                sent_at_ms=now_ms(),
                tasks=tuple(sorted(tasks, key=lambda task: task.task)),
                error=self._status.error or self._refused,
            )

    def _as_planned(self) -> Iterator[tuple[int, TaskStatus]]:
        """Slot and status of each task that a slot reported, or that one is to be active for."""
        for slot, tasks in self._slots.items():
            for task in tasks:
                plan = self._plans.get(slot, {}).get(task.task)
                yield slot, task if plan is None else as_planned(task, plan)
        reported = {task.task for tasks in self._slots.values() for task in tasks}
        for slot, of_slot in self._plans.items():
            for plan in of_slot.values():
                if plan.role is Role.ACTIVE and plan.task not in reported:
                    yield slot, as_planned(None, plan)

    def _with_progress(self, slot: int, task: TaskStatus) -> TaskStatus:
        seen = self._seen
        if seen is not None:
            task = seen(slot, task, self._status.paused)
        now = time.monotonic()
        return dataclasses.replace(self._rates.with_rates(task, now), failed_s=self._failures.failed_s(task, now))


def _with_done(status: InstanceStatus, done: Sequence[_Done]) -> InstanceStatus:
    """With the ids of all of these that were carried out, and of some before them; the same where it has them."""
    ids = [one.command.id for one in done if one.carried_out]
    known = [id for id in status.last_commands if id not in set(ids)]
    named = (*known, *ids)[-max(_COMMANDS_KEPT, len(ids)) :]
    refusals = {**status.refusals, **{one.command.id: one.refusal for one in done if one.refusal is not None}}
    kept = {id: why for id, why in refusals.items() if id in set(named)}
    return dataclasses.replace(status, last_commands=named, refusals=kept)


def _with_short_error(task: TaskStatus) -> TaskStatus:
    if task.failure is None:
        return task
    short = dataclasses.replace(task.failure, message=bounded(task.failure.message, _SHORT_CHARS))
    return dataclasses.replace(task, failure=short)


def _sent_at_once(task: TaskStatus) -> tuple[object, ...]:
    # Whether it is at the end, and whether it has committed, are what a failover waits for; a drill for its fault, a
    # replay for its answer.
    caught_up, first_commit = task.lag_records == 0, task.first_commit_at_ms is None
    return task.state, task.role, task.generation, task.error, task.fault, task.replay, caught_up, first_commit
