"""Whether active tasks get on: their source's ends, and for how long each has stood still."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import (
    FailureStatus,
    RestorePhase,
    Role,
    SourceStatus,
    TableWaitStatus,
    TaskState,
    TaskStatus,
)
from airflow_provider.errors import WorkerError
from airflow_provider.streaming.driver.watches.source_ends import Ends, SourceEnd

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_IDLE_FOR_S: Final = 20.0
"""How long it holds that a source has nothing new: some looks."""
_ENGINE_SILENT_S: Final = 30.0
"""A JVM that does not answer for so long is not collecting garbage: what waits for it is not under way."""
_WORKER_SILENT_S: Final = 30.0
"""A round takes a quarter of a second; with stores to open or owners to fence, some seconds."""


@dataclass(frozen=True)
class _Mark:
    """How far a task was, and since when.

    Args:
        generation: in which it got the task.
        source_offset: of the next input record.
        restored: the most records that a restore of this generation has applied.
    """

    generation: int
    source_offset: int | None
    restored: int
    since: float


class StallClock:
    """Counts from a task's last commit, a restore's last record, or its query's first call, whichever was latest.

    What cannot run yet does not stand still.
    What does not count as getting on: owning the task again, or restoring again what was restored before. A task that
    does so after each of its batches stands still.

    The caller passes the time in, so that nothing here knows a clock.
    """

    def __init__(self) -> None:
        self._marks: dict[TaskId, _Mark] = {}

    def stalled_s(
        self,
        task: TaskStatus,
        has_work: bool,
        now: float,
        until: float | None = None,
        ready_at: float | None = None,
        ready_within_s: float = 0.0,
    ) -> float:
        """Seconds for which a task has got no further.

        Args:
            task: an active one, as last reported.
            has_work: whether its source has something for it, and it is to process that.
            until: when a call into its worker began that may still take its time; what comes after does not count.
            ready_at: when its query first called in this generation, monotonic seconds; None before.
            ready_within_s: how long it may take until then.
        """
        before = self._marks.get(task.task)
        if (
            before is None
            or not has_work
            or before.generation != task.generation
            or before.source_offset != task.source_offset
            or task.restore.phase is RestorePhase.SNAPSHOT
        ):
            self._marks[task.task] = _Mark(task.generation, task.source_offset, task.restore.records, now)
            return 0.0
        if task.restore.records > before.restored:
            self._marks[task.task] = _Mark(task.generation, task.source_offset, task.restore.records, now)
            return 0.0
        if ready_at is None and now - before.since <= ready_within_s:
            return 0.0
        return max(0.0, (now if until is None else until) - max(before.since, ready_at or before.since))

    def forget(self, task: TaskId) -> None:
        """A task that is not active here any more begins again when it is active again."""
        self._marks.pop(task, None)


class ProgressWatch:
    """Looks at the source by itself, so that it notices too when the JVM or a worker does nothing any more.

    Two threads of its own: one asks the brokers, one asks the JVM for a sign of life. `status` may be called from any
    other, by one at a time.

    Args:
        ends: by stage, of its source; closed by the thread that asks.
        ping: returns once the JVM has answered.
        batch_since: of a slot, when the call with a micro-batch's rows that is under way began, in monotonic seconds;
            None where none is.
        first_call: when the query that brings an active task's rows first called in the task's generation, in
            monotonic seconds; None before. Spark loads, compiles and starts what it needs until then.
        silent_for_s: of a slot, for how long the call under way has not come back, in seconds; 0 where there is none.
        call_timeout_s: how long a call with rows may take; and how long it may take until the first, as long as the
            JVM and the worker answer and the task has no error.
        waits_for: the table that a task waits for; None for none.
    """

    def __init__(
        self,
        ends: Mapping[int, Ends],
        ping: Callable[[], object],
        batch_since: Callable[[int], float | None],
        first_call: Callable[[int, TaskStatus], float | None],
        silent_for_s: Callable[[int], float],
        call_timeout_s: float,
        waits_for: Callable[[TaskId], TableWaitStatus | None] = lambda _: None,
    ) -> None:
        self._ends, self._ping = ends, ping
        self._batch_since, self._first_call, self._silent_for_s = batch_since, first_call, silent_for_s
        self._call_timeout_s = call_timeout_s
        self._waits_for = waits_for
        self._clock = StallClock()
        self._seen: Mapping[TaskId, SourceEnd] = {}
        self._offsets: dict[TaskId, int | None] = {}
        self._without_input: tuple[float, frozenset[TaskId]] = (0.0, frozenset())
        self._fell_back: tuple[float, frozenset[TaskId]] = (0.0, frozenset())
        self._answered_at = time.monotonic()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in ((self._look_on, "source-ends"), (self._ping_on, "jvm-ping"))
        ]

    def start(self) -> None:
        """Begin to look."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; does not wait for an answer that is under way."""
        self._stop.set()

    @property
    def idle(self) -> frozenset[TaskId]:
        """The active tasks whose sources held nothing new when they were looked at last, a moment ago.

        Not those whose source has a transaction that has not ended: it may bring records of any time.
        """
        looked_at, tasks = self._without_input
        return tasks if time.monotonic() - looked_at <= _IDLE_FOR_S else frozenset()

    @property
    def fell_back(self) -> tuple[float, frozenset[TaskId]]:
        """When the sources were looked at last, in monotonic seconds, and whose ended before what was processed."""
        return self._fell_back

    def seen(self, slot: int, task: TaskStatus, paused: bool) -> TaskStatus:
        """A task as its slot reported it last, with what the source holds for it, as far as that report still holds."""
        silent_s = self._silent_for_s(slot)
        if task.role is Role.STANDBY and silent_s > _WORKER_SILENT_S:
            task = _unheard(task, silent_s)
        return dataclasses.replace(task, source=self.status(slot, task, paused))

    def status(self, slot: int, task: TaskStatus, paused: bool) -> SourceStatus:
        """What the source holds for a task, and for how long it has stood still."""
        if task.role is not Role.ACTIVE:
            self._offsets.pop(task.task, None)
            self._clock.forget(task.task)
            return SourceStatus()
        self._offsets[task.task] = task.source_offset
        end = self._seen.get(task.task)
        now, waits_for = time.monotonic(), self._waits_for(task.task)
        if end is None:
            return SourceStatus(waits_for=waits_for)
        lag = end.lag_records(task.source_offset)
        # Who is behind while it waits for a table is the table's task, whose own clock runs.
        has_work = not paused and waits_for is None and (lag > 0 or end.uncommitted_records > 0)
        first_call = self._first_call(slot, task)
        # Beside rows of other tasks, which may take their time, a call that does not come back is no getting ready.
        hangs = self._batch_since(slot) is None and self._silent_for_s(slot) > _WORKER_SILENT_S
        may_get_ready = task.error is None and not hangs and now - self._answered_at <= _ENGINE_SILENT_S
        stalled_s = self._clock.stalled_s(
            task,
            has_work,
            now,
            self._under_way_since(slot, now),
            first_call,
            self._call_timeout_s if may_get_ready else 0.0,
        )
        return SourceStatus(
            end=end.end,
            # Where a task that is taken over stands is not known before its store is open: not all of its topic waits.
            lag_records=None if task.source_offset is None and task.state is not TaskState.RUNNING else lag,
            uncommitted_records=end.uncommitted_records,
            stalled_s=round(stalled_s, 1),
            gets_ready=has_work and first_call is None and not hangs,
            waits_for=waits_for,
        )

    def _under_way_since(self, slot: int, now: float) -> float | None:
        since = self._batch_since(slot)
        if since is None or now - since > self._call_timeout_s or now - self._answered_at > _ENGINE_SILENT_S:
            return None
        return since

    def _look_on(self) -> None:
        logged = dict.fromkeys(self._ends, "")
        while not self._stop.wait(_EVERY_S):
            offsets, seen, looked_at = self._offsets.copy(), dict[TaskId, SourceEnd](), time.monotonic()
            for stage, ends in self._ends.items():
                of_stage = {task.partition: offset for task, offset in offsets.items() if task.stage == stage}
                try:
                    found = ends.look(of_stage)
                    logged[stage] = ""
                except Exception as error:
                    # What is not known stalls no task; the brokers' absence is reported by the tasks. Whatever it is,
                    # the next look may get past it: without this thread no task would ever be found to stand still.
                    found = {}
                    if repr(error) != logged[stage]:
                        logged[stage] = repr(error)
                        log.warning("the ends of the source of stage %d are not known for now: %r", stage, error)
                seen |= {TaskId(stage, partition): end for partition, end in found.items()}
            self._seen = seen
            idle = frozenset(task for task, end in seen.items() if end.holds_nothing_from(offsets[task]))
            self._without_input = (looked_at, idle)
            fell_back = frozenset(task for task, end in seen.items() if end.ends_before(offsets[task]))
            self._fell_back = (looked_at, fell_back)
        for ends in self._ends.values():
            ends.close()

    def _ping_on(self) -> None:
        while not self._stop.wait(_EVERY_S):
            try:
                self._ping()
            except Exception as error:
                log.warning("the JVM does not answer: %s", error)
            else:
                self._answered_at = time.monotonic()


def _unheard(task: TaskStatus, silent_s: float) -> TaskStatus:
    """A standby whose worker does not come back: nobody knows how far behind it is, so no failover may count on it."""
    why = (
        f"Its worker has not come back from a call for {silent_s:.0f} s, so how far behind it is is not known. Unless "
        "it is a micro-batch that takes so long, look for a process or a disk of this host that hangs."
    )
    failure = task.failure or FailureStatus(WorkerError.__name__, why)
    return dataclasses.replace(task, lag_records=None, lag_s=None, failure=failure)
