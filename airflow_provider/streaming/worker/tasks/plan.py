"""What the driver sends to a worker with every call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.planner.stage_spec import StageSpec


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """What to be for a task.

    Args:
        generation: an active's ``active_since``.
        replay: id of the command that asks to restore the store afresh; None for none. Carried out once.
        snapshot: of a standby, id of the command that asks to copy its store elsewhere now; None for none.
        certify: of a standby, id of the command that asks to compare its store with its active's now; None for none.
        has_standbys: whether another instance holds a copy. Then an active whose store is lost fails the task, so that
            the copy takes over, instead of making everybody wait while it restores its own.
    """

    task: TaskId
    role: Role
    generation: int
    replay: str | None = None
    snapshot: str | None = None
    certify: str | None = None
    has_standbys: bool = False

    @property
    def yields_to_standby(self) -> bool:
        """Whether a lost store is a standby's turn rather than a restore in place."""
        return self.role is Role.ACTIVE and self.has_standbys

    def same_ownership(self, other: TaskPlan) -> bool:
        """Whether both name the same role in the same generation."""
        return (self.role, self.generation) == (other.role, other.generation)


@dataclass(frozen=True, kw_only=True)
class SlotPlan:
    """Everything that a call into a worker needs; the newest is the truth, whatever the worker held before.

    Args:
        tasks: what to be for each task; a task that is not named is closed.
        budget_s: how long a call may follow changelogs.
        rows_of: tasks of one stage whose rows this call may process. A query that skipped rows of a task once, because
            the task failed, must never process later ones: they would be a gap. A new query begins where the task
            stopped.
        idle: tasks whose sources held nothing new when that was looked for last.
        clock_ms: the driver's time of the call, epoch ms, which is that of its rows too; None where time stands still.
        number: of what is said of the tasks; another one where that has changed. None where nobody counts: it is
            looked at with each call.
        max_crashes: how many workers may end in the middle of the same batch of a task before the task fails.
    """

    settings: InstanceSettings
    stages: Mapping[int, StageSpec]
    slot: int
    tasks: tuple[TaskPlan, ...]
    budget_s: float
    number: int | None = None
    rows_of: tuple[TaskId, ...] = ()
    idle: frozenset[TaskId] = frozenset()
    clock_ms: int | None = None
    max_crashes: int = 3

    @property
    def any_stage(self) -> StageSpec:
        """One of the stages, for what is the same in all of them."""
        return self.stages[min(self.stages)]
