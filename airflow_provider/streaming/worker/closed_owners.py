"""What owners had done when their stores were closed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import Role
from airflow_provider.streaming.worker.ownership import Ownership
from airflow_provider.streaming.worker.plan import TaskPlan

__all__ = ["ClosedOwner", "ClosedOwners"]


@dataclass(frozen=True)
class ClosedOwner:
    """An active task without an open store.

    Args:
        plan: what it was.
        ownership: what it did in the plan's generation.
        record: the last commit that its store was applied to; None before the first.
    """

    plan: TaskPlan
    ownership: Ownership
    record: CommitRecord | None


class ClosedOwners:
    """Remembers what an owner committed when its store is lost: whether it did decides who may have the task next."""

    def __init__(self) -> None:
        self._closed: dict[TaskId, ClosedOwner] = {}

    def note(self, owner: ClosedOwner) -> None:
        """The store of a task was closed; nothing is noted of a standby's.

        Args:
            owner: of the store, which may have been opened again and not be restored yet.
        """
        before = self.known(owner.plan)
        if before is not None and _sequence(before) > _sequence(owner):
            owner = ClosedOwner(owner.plan, owner.ownership, before.record)
        if owner.plan.role is Role.ACTIVE:
            self._closed[owner.plan.task] = owner

    def known(self, plan: TaskPlan) -> ClosedOwner | None:
        """What was noted of the same ownership; None where nothing was."""
        closed = self._closed.get(plan.task)
        return closed if closed is not None and closed.plan.same_ownership(plan) else None

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forget all but these tasks."""
        self._closed = {task_id: closed for task_id, closed in self._closed.items() if task_id in tasks}


def _sequence(owner: ClosedOwner) -> int:
    return 0 if owner.record is None else owner.record.sequence
