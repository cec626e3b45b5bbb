"""For how long a task has been failed: by the driver's own monotonic clock."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import TaskState, TaskStatus

__all__ = ["FailureClock"]


class FailureClock:
    """Counts from the first report of a task's failure, until it is reported otherwise, or in another generation.

    The caller passes the time in, so that nothing here knows a clock.
    """

    def __init__(self) -> None:
        self._since: dict[TaskId, tuple[int, float]] = {}

    def failed_s(self, task: TaskStatus, now: float) -> float | None:
        """Seconds for which a task has been failed; None where it has not.

        Args:
            task: as last reported.
            now: monotonic seconds.
        """
        if task.state is not TaskState.FAILED:
            self._since.pop(task.task, None)
            return None
        generation, since = self._since.get(task.task, (task.generation, now))
        if generation != task.generation:
            since = now
        self._since[task.task] = (task.generation, since)
        return round(now - since, 3)
