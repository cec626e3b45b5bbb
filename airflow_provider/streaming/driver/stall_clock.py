"""For how long a task has got no further although it has something to do: by the driver's own monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import RestorePhase, TaskStatus

__all__ = ["StallClock"]


@dataclass(frozen=True)
class _Mark:
    """How far a task was, and since when.

    Args:
        generation: in which it got the task.
        source_offset: of the next input record.
        restored: the most records that a restore of this generation has applied.
        since: monotonic seconds.
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
            now: monotonic seconds.
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
