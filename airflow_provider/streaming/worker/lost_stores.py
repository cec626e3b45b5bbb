"""Which actives lost their stores while a standby can take over."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.streaming.worker.plan import TaskPlan

__all__ = ["LostStores"]


class LostStores:
    """Remembers why an owner lost its store, so that it does not restore one that a standby has warm."""

    def __init__(self) -> None:
        self._lost: dict[TaskId, tuple[TaskPlan, Exception]] = {}

    def note(self, plan: TaskPlan, error: Exception) -> None:
        """An owner lost its store; nothing is noted of a task that no standby takes over.

        Args:
            plan: of the owner.
            error: why.
        """
        if plan.yields_to_standby:
            self._lost[plan.task] = (plan, error)

    def forget(self, task: TaskId) -> None:
        """It is tried again."""
        self._lost.pop(task, None)

    def reason(self, plan: TaskPlan) -> Exception | None:
        """Why this owner lost its store, while a standby is to take over: until the next generation says otherwise."""
        plan_then, error = self._lost.get(plan.task, (None, None))
        if plan_then is not None and plan_then.same_ownership(plan):
            return error if plan.has_standbys else None
        self._lost.pop(plan.task, None)
        return None
