"""What a slot's driver and its worker say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.lookup import CopyAnswer
from airflow_provider.control.records.status import Role, TaskStatus
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.line import LineAddress
from airflow_provider.streaming.worker.tasks.lost_input import LostInput


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
class KeyLookup:
    """A lookup in a store.

    Args:
        question: its id.
        stage: that keeps the store.
        group: the key, as state is kept by.
    """

    question: str
    stage: int
    group: bytes


@dataclass(frozen=True)
class LookedUp:
    """What the copies of a worker hold of a key."""

    question: str
    copies: tuple[CopyAnswer, ...]


@dataclass(frozen=True, kw_only=True)
class SlotWork:
    """What a call asks of a worker; the newest is the truth, whatever the worker held before.

    Args:
        tasks: what to be for each task; a task that is not named is closed.
        budget_s: how long a call may follow changelogs.
        rows_of: by task of one stage whose rows this call may process, the source offset at which its store stood when
            the rows before these were processed; None for none. Where it stands before that, they would leave a gap:
            rows before them were skipped because the task failed, or its changelog has lost them since. A new query
            begins where the task stands.
        reads: tasks whose sources the worker reads itself, for as long as it stays.
        idle: tasks whose sources held nothing new when that was looked for last.
        clock_ms: the driver's time of the call, epoch ms, which is that of its rows too; None where time stands still.
        number: of what is said of the tasks; another one where that has changed. None where nobody counts: it is
            looked at with each call.
        call: the number of the call, for its answer.
        max_crashes: how many workers may end in the middle of the same batch of a task before the task fails.
        lookups: what stores are asked for; answered once.
    """

    tasks: tuple[TaskPlan, ...]
    budget_s: float
    number: int | None = None
    call: int = 0
    rows_of: Mapping[TaskId, int | None] = field(default_factory=dict)
    reads: tuple[TaskId, ...] = ()
    idle: frozenset[TaskId] = frozenset()
    clock_ms: int | None = None
    max_crashes: int = 3
    lookups: tuple[KeyLookup, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WorkerSource:
    """A source that a worker reads itself.

    Args:
        most_records: of a micro-batch, over its partitions; None for no bound of the job's.
        timestamps: whether the rows also hold the record's timestamp.
        goes_on_after_loss: whether a task goes on without input that was deleted before it was read.
        waits: whether what comes waits for a table, until the driver lets it through.
    """

    topic: str
    most_records: int | None = None
    timestamps: bool = False
    goes_on_after_loss: bool = False
    waits: bool = False


@dataclass(frozen=True, kw_only=True)
class Stay:
    """That a worker does not return from a call: it answers further ones over a line, and reads its sources meanwhile.

    Args:
        line: where the driver waits for it.
        seconds: after which it returns all the same.
    """

    line: LineAddress
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SlotPlan(SlotWork):
    """Everything that a call into a worker needs: what it asks, and what is the same for all calls.

    Args:
        sources: by stage that workers read themselves; the rows of the others come with the calls.
        stay: None for a worker that returns at once.
    """

    settings: InstanceSettings
    stages: Mapping[int, StageSpec]
    slot: int
    sources: Mapping[int, WorkerSource] = field(default_factory=dict)
    stay: Stay | None = None

    @property
    def any_stage(self) -> StageSpec:
        """One of the stages, for what is the same in all of them."""
        return self.stages[min(self.stages)]


@dataclass(frozen=True)
class CallReport:
    """What a call answers, and what a worker that stays says by itself.

    Args:
        call: the number of the call that it answers; None where it answers none.
        lost: what the tasks have gone on without.
        looked_up: what its lookups found.
    """

    statuses: tuple[TaskStatus, ...]
    rows: int = 0
    bytes: int = 0
    call: int | None = None
    lost: tuple[tuple[TaskId, LostInput], ...] = ()
    looked_up: tuple[LookedUp, ...] = ()
