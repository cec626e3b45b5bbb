"""What a slot is to do."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import Role
from airflow_provider.streaming.worker.plan import TaskPlan

__all__ = ["SlotGoal"]


@dataclass(frozen=True)
class SlotGoal:
    """What the instance wants of one of its slots; the newest is the truth.

    Args:
        tasks: what to be for each task; a task that is not named is closed.
        paused: whether micro-batches are held back. Standbys go on following their changelogs.
        stopping: whether the slot is to end.
    """

    tasks: tuple[TaskPlan, ...] = ()
    paused: bool = False
    stopping: bool = False

    @property
    def active(self) -> frozenset[TaskId]:
        """The tasks that this slot is to process."""
        return frozenset(plan.task for plan in self.tasks if plan.role is Role.ACTIVE)
