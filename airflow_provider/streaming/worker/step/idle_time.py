"""Time goes on without records, where the job says so: for a source that has held nothing new for long."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.worker.step.active_step import clock_step, idle_step, tell_step
from airflow_provider.streaming.worker.tasks.task import Task

ASIDE_MS: Final = 60_000
"""After which those behind a task's topics wait for its rows no more, where the job says nothing else."""

MAX_GAP_S: Final = 60.0
"""Between two signs that a source holds nothing new; a process that stood still does not know what came."""


@dataclass(frozen=True, kw_only=True)
class _Idle:
    """A task without input.

    Args:
        task: itself: one that was opened again begins anew.
        counted: how many records have moved its time, or could have.
        since_s: when that was known first, by the clock.
        confirmed_s: when it was known last.
    """

    task: Task
    generation: int
    counted: int
    since_s: float
    confirmed_s: float
    time: StreamTime

    def goes_on(self, task: Task, now_s: float, max_gap_s: float) -> bool:
        """Whether it has had no input since that counts, as far as is known: what a filter drops moves no time."""
        same = task is self.task and task.plan.generation == self.generation
        return same and _counted(task) == self.counted and now_s - self.confirmed_s <= max_gap_s


def _counted(task: Task) -> int:
    record = task.commit_record
    if record is None:
        return 0
    return record.processed - record.failed - sum(record.filtered.get(name, 0) for name in task.job.input.filters)


class IdleTime:
    """Moves the time of tasks whose source has held nothing new for longer than their `EventTime.idle_ms`.

    A source that another stage writes is never idle. From then on their stream time goes on as fast as the clock: by
    what has passed beyond that. So it needs no event time that is near the clock's, and a backlog that is read moves
    nothing. What moved counts once it is committed, which it is when something comes of it; the rest is forgotten with
    the worker. Where the job names no timeout, nobody behind the task's topics waits for its rows after a minute, or
    where it has had none yet at once (`tell_step`).

    Args:
        clock: seconds, of a clock that nobody sets.
        max_gap_s: how long a sign that there is nothing new holds.
    """

    def __init__(
        self,
        *,
        tasks: Mapping[TaskId, Task],
        isolating_batch: Callable[[TaskId, bool], AbstractContextManager[None]],
        group: ConsumerGroup,
        clock: Callable[[], float],
        max_gap_s: float = MAX_GAP_S,
    ) -> None:
        self._tasks, self._isolating_batch, self._group = tasks, isolating_batch, group
        self._clock, self._max_gap_s = clock, max_gap_s
        self._idle: dict[TaskId, _Idle] = {}

    def tick(self, idle: Collection[TaskId], clock_ms: int | None = None) -> None:
        """Learn which tasks have no input now, and move the time of those that have had none for long.

        Args:
            clock_ms: the time of the call, epoch ms, by which the operations that ask for it are told; None for none.
        """
        if clock_ms is not None:
            self._tell_clock(clock_ms)
        now_s = self._clock()
        tasks = {id_: task for id_ in idle if (task := self._tasks.get(id_)) is not None}
        self._idle = {
            id_: known
            for id_, task in tasks.items()
            if task.state is TaskState.RUNNING and (known := self._known(task, now_s)) is not None
        }
        for id_, known in self._idle.items():
            with self._isolating_batch(id_, False):
                self._move(known)

    def _tell_clock(self, clock_ms: int) -> None:
        for id_, task in list(self._tasks.items()):
            if task.operation.clocked and task.state is TaskState.RUNNING:
                with self._isolating_batch(id_, False):
                    clock_step(task, clock_ms, self._group)

    def _known(self, task: Task, now_s: float) -> _Idle | None:
        event_time, record = task.job.input.event_time, task.commit_record
        if event_time is None or task.job.input.upstream:
            return None
        if not task.job.marked and (event_time.idle_ms is None or record is None or record.stream_time_ms is None):
            return None
        before = self._idle.get(task.id)
        since = before if before is not None and before.goes_on(task, now_s, self._max_gap_s) else None
        return _Idle(
            task=task,
            generation=task.plan.generation,
            counted=_counted(task),
            since_s=now_s if since is None else since.since_s,
            confirmed_s=now_s,
            time=StreamTime.after(record) if since is None else since.time,
        )

    def _move(self, idle: _Idle) -> None:
        event_time, task = idle.task.job.input.event_time, idle.task
        assert event_time is not None
        stream_time_ms, idle_ms = idle.time.stream_time_ms, event_time.idle_ms
        idle_for_ms = int((idle.confirmed_s - idle.since_s) * 1000)
        if idle_ms is not None and stream_time_ms is not None and idle_for_ms > idle_ms:
            idle_step(task, stream_time_ms + idle_for_ms - idle_ms, self._group)
        if task.job.marked:
            never_any, long = stream_time_ms is None, idle_ms is None and idle_for_ms > ASIDE_MS
            tell_step(task, never_any or long, self._group)
