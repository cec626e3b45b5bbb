"""A drill's fault: the kinds that there are, a row for each, and the note of one that was injected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.incident import IncidentKind
from airflow_provider.errors import ConfigurationError, StoreCorruptedError

LONGEST_FAULT_S: Final = 300.0
"""An instance that a drill keeps from its tasks until they run elsewhere goes on after this, if nobody answers it."""


class DrillKind(StrEnum):
    """What can be rehearsed."""

    CRASH = "crash"
    HANG = "hang"
    STORE_LOST = "store_lost"
    STANDBY_LOST = "standby_lost"
    ACTIVE_AND_STANDBY_LOST = "active_and_standby_lost"
    STORE_CORRUPTED = "store_corrupted"
    SHADOW_RESTORE = "shadow_restore"


class Victim(Enum):
    """Whom a drill hits."""

    INSTANCE = "instance"
    """An instance, with all tasks that it is active for."""
    ACTIVE = "active"
    """The store of one task that an instance is active for."""
    STANDBY = "standby"
    """The store of one task that an instance is a standby for."""
    COPIES = "copies"
    """The store of one task that an instance is active for, and those of all its standbys."""
    COPY = "copy"
    """One task that an instance is a standby for; one that it is active for where there are no standbys."""


class Room(Enum):
    """For what a drill may need room on disks at the worst, beside what is there."""

    PROMOTED = "promoted"
    """Where the standbys of the tasks are: the one that is promoted turns out to be bad, is kept, and is restored
    afresh beside it.
    """
    HIT = "hit"
    """Where the copies are that are hit: each is restored beside what is kept of it, or is still held open."""
    ANYWHERE = "anywhere"
    """At every other living instance: no copy is left, and any of them may be asked to replay the changelog."""


@dataclass(frozen=True, kw_only=True)
class DrillSpec:
    """What a kind of drill does, and what has to follow.

    Args:
        does: what befalls the application, in a few words that follow "a drill".
        cause: the incident as which a watcher finds it, to be answered by a failover; None where nothing is to be
            answered, because all tasks go on.
        error_kind: the error with which the failed task has to be found; None where it does not matter.
        room: for what disks need room at the worst.
        reports: whether the instance reports how it ended (`control.records.status.FaultStatus`).
        ends_process: whether the instance's process ends by it, so that it cannot report that it did it.
        until_moved: whether it lasts until the instance's tasks run elsewhere, for `LONGEST_FAULT_S` at the most. So
            there has to be one.
    """

    does: str
    command: CommandKind
    victim: Victim = Victim.INSTANCE
    cause: IncidentKind | None
    error_kind: str | None = None
    room: tuple[Room, ...] = (Room.PROMOTED,)
    reports: bool = False
    ends_process: bool = False
    until_moved: bool = False


DRILLS: Final[Mapping[DrillKind, DrillSpec]] = MappingProxyType(
    {
        DrillKind.CRASH: DrillSpec(
            does="kills an instance with SIGKILL",
            command=CommandKind.KILL,
            cause=IncidentKind.INSTANCE_ENDED,
            ends_process=True,
        ),
        DrillKind.HANG: DrillSpec(
            does="stops an instance with SIGSTOP until its tasks run elsewhere, then lets it go on",
            command=CommandKind.HANG,
            cause=IncidentKind.HEARTBEAT_MISSED,
            until_moved=True,
        ),
        DrillKind.STORE_LOST: DrillSpec(
            does="removes the store of an active task",
            command=CommandKind.LOSE_STORE,
            victim=Victim.ACTIVE,
            room=(Room.HIT, Room.PROMOTED),
            cause=IncidentKind.TASK_FAILED,
            error_kind=StoreCorruptedError.__name__,
        ),
        DrillKind.STANDBY_LOST: DrillSpec(
            does="removes a standby's store",
            command=CommandKind.LOSE_STORE,
            victim=Victim.STANDBY,
            room=(Room.HIT,),
            cause=None,
        ),
        DrillKind.ACTIVE_AND_STANDBY_LOST: DrillSpec(
            does="removes the stores of a task's active and of all its standbys at once",
            command=CommandKind.LOSE_STORE,
            victim=Victim.COPIES,
            room=(Room.HIT, Room.ANYWHERE),
            cause=IncidentKind.TASK_FAILED,
            error_kind=StoreCorruptedError.__name__,
        ),
        DrillKind.STORE_CORRUPTED: DrillSpec(
            does="damages an SST file of an active task's store",
            command=CommandKind.CORRUPT_STORE,
            victim=Victim.ACTIVE,
            room=(Room.HIT, Room.PROMOTED),
            cause=IncidentKind.TASK_FAILED,
            error_kind=StoreCorruptedError.__name__,
        ),
        DrillKind.SHADOW_RESTORE: DrillSpec(
            does="replays a task's changelog beside its living store, compares the digest, and throws it away",
            command=CommandKind.SHADOW_RESTORE,
            victim=Victim.COPY,
            room=(Room.HIT,),
            cause=None,
            reports=True,
        ),
    }
)


def parse_drill_kind(text: str) -> DrillKind:
    """The kind of a name.

    Raises:
        ConfigurationError: there is no such kind.
    """
    try:
        return DrillKind(text)
    except ValueError as error:
        raise ConfigurationError(f"Found drill kind {text!r}: use one of {', '.join(DrillKind)}.") from error


@dataclass(frozen=True, kw_only=True)
class OutputCut:
    """How much had been written at a moment at which nothing was being written.

    Args:
        written: by topic, what the last commits of all tasks count together.
        ends: by topic, the end of each of its partitions.
        unmeasured: why there is none of this; None where there is.
        taken_at_ms: when, by this host's clock, epoch ms; None where an earlier version of this package took it.
    """

    tasks: tuple[TaskId, ...] = ()
    written: dict[str, int] = field(default_factory=dict)
    ends: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unmeasured: str | None = None
    taken_at_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class InjectedFault:
    """What was the case when a fault was injected. Crosses between Airflow tasks as plain values.

    Kept in ``<app>-assignment`` under ``fault/<id>``, written in one transaction with the commands to the instances:
    where it stands, the fault was injected, and is never injected again.

    Args:
        id: of the fault and of its command: the same for every try of the same Airflow task in the same run.
        tasks: those that are hit: the instance's active tasks, or the one whose store is.
        copies: by name, the processes of the instances whose standby copies of the tasks are hit too.
        source_offsets: by task, the next input offset as last reported.
        positions: by task, the changelog offset up to which its active's store was applied, as last reported.
        certified: whether every standby's store had been found to hold what its active's did.
        predicted_rto_ms: what the failover was predicted to take; None where nothing was predicted.
        outputs: what had been written just before; None where outputs are not to be counted.
    """

    id: str
    kind: DrillKind = DrillKind.CRASH
    instance: str
    incarnation: int
    generation: int
    tasks: tuple[TaskId, ...]
    source_offsets: dict[TaskId, int]
    injected_at_ms: int
    predicted_rto_ms: int | None = None
    copies: dict[str, int] = field(default_factory=dict)
    positions: dict[TaskId, int] = field(default_factory=dict)
    certified: bool = False
    outputs: OutputCut | None = None

    @property
    def spec(self) -> DrillSpec:
        """The row of its kind."""
        return DRILLS[self.kind]

    @property
    def processes(self) -> dict[str, int]:
        """By name, the processes of all instances that are hit."""
        return {self.instance: self.incarnation, **self.copies}
