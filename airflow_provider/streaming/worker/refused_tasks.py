"""Which tasks could not be opened for a reason that only a person removes."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.streaming.worker.plan import TaskPlan

__all__ = ["RefusedTasks"]


class RefusedTasks:
    """Remembers why: a task whose store is not open fails and is held as one whose store is (`Task.fail`)."""

    def __init__(self) -> None:
        self._refused: dict[TaskId, tuple[TaskPlan, Exception]] = {}

    def note(self, plan: TaskPlan, error: Exception) -> None:
        """A task could not be opened.

        Args:
            plan: what it was to be.
            error: why.
        """
        self._refused[plan.task] = (plan, error)

    def forget(self, task: TaskId) -> None:
        """It is tried again."""
        self._refused.pop(task, None)

    def reason(self, plan: TaskPlan) -> Exception | None:
        """Why it could not; None once a newer generation names it, or a replay that was asked for since."""
        plan_then, error = self._refused.get(plan.task, (None, None))
        if plan_then is not None and plan_then.same_ownership(plan) and plan_then.replay == plan.replay:
            return error
        self._refused.pop(plan.task, None)
        return None
