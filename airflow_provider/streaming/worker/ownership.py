"""What a task did as its partition's owner, while its store is open and after."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role
from airflow_provider.streaming.worker.plan import TaskPlan

__all__ = ["ClosedOwner", "ClosedOwners", "Ownership"]


class Ownership:
    """The times and counts of a task that is, or was, the active one. `Task` knows when each happens."""

    def __init__(self) -> None:
        self.owned_at_ms: int | None = None
        """When every earlier owner was fenced, epoch ms; None for a standby."""
        self.first_commit_at_ms: int | None = None
        """When the first commit since the promotion returned, epoch ms; None before."""
        self.resumed_offset: int | None = None
        """Source offset of the last commit before this owner's first; None before it is known."""
        self.processed = 0
        """Input records of the commits since the promotion."""
        self._lost_at: float | None = None

    def begin(self) -> None:
        """The task is promoted, and has to fence."""
        self._lost_at = None
        self.first_commit_at_ms = None
        self.resumed_offset = None
        self.processed = 0

    def take(self) -> None:
        """Every earlier owner is fenced."""
        self.owned_at_ms = now_ms()

    def resume(self, source_offset: int | None) -> None:
        """The store is restored.

        Args:
            source_offset: of the last commit, with which it goes on; None where there is none.
        """
        self.resumed_offset = source_offset

    def count_commit(self, rows: int) -> None:
        """A micro-batch was committed.

        Args:
            rows: its input records.
        """
        self.first_commit_at_ms = self.first_commit_at_ms or now_ms()
        self.processed += rows

    def lose(self) -> None:
        """A newer owner has fenced this one."""
        self._lost_at = time.monotonic()

    @property
    def lost_for_s(self) -> float:
        """How long ago a newer owner fenced this one; 0 where none did since the promotion."""
        return 0.0 if self._lost_at is None else time.monotonic() - self._lost_at

    def end(self) -> None:
        """The task is demoted."""
        self.owned_at_ms = None
        self.resumed_offset = None


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
