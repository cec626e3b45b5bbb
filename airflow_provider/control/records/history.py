"""What an application went through: one record for each drill, failover, restore and upgrade."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from airflow_provider.common.json_codec import from_numbered_json, to_json, to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.incident import Decision
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.error_text import bounded

HISTORY_FORMAT: Final = 1
"""The newest format that this version reads, and the one that it writes."""

CLOCKS_AGREE_MS: Final = 1_000
"""How far the clocks of hosts that are kept in time may be apart."""


class HistoryKind(Enum):
    """What a record is of."""

    DRILL = "drill"
    """A failure that was rehearsed. Its failover has a record of its own."""
    FAILOVER = "failover"
    """An incident that was answered."""
    RESTORE = "restore"
    """A replay of changelogs that was asked for."""
    UPGRADE = "upgrade"
    """An instance that was restarted because its job file or a setting changed."""


class HistoryOutcome(Enum):
    """How it ended."""

    OPEN = "open"
    """It has not ended yet, or nobody noted its end."""
    PASSED = "passed"
    """A drill kept what is promised; after a failover every task has its standbys again; what was asked for is done."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Nothing was measured, as in a drill without input, or one that did not begin."""


@dataclass(frozen=True, kw_only=True)
class RtoParts:
    """Where the time from a failure to the next output went, in ms; None where a part is not known.

    The failure is timed by the broker's clock, the rest by those of Airflow and of the instances: a part can be below
    zero by as much as those clocks differ. A total more than a second below zero is no measurement: it is None, and
    `clocks_differ_ms` says so.

    Args:
        detected_ms: from the failed instance's last sign of life, or the task's failure, until the failure was found:
            by the watcher, or where nobody watched by who answered it.
        decided_ms: from there until the next generation was published.
        owned_ms: from there until the last of the tasks was owned by its next instance.
        first_output_ms: from there until the last of the tasks that had input had committed again.
        total_ms: from the failure, or its detection where the failure is not timed, to the last of these commits: the
            RTO.
        clocks_differ_ms: by how much these two clocks differ at the least, where that is why the total is None.
    """

    detected_ms: int | None = None
    decided_ms: int | None = None
    owned_ms: int | None = None
    first_output_ms: int | None = None
    total_ms: int | None = None
    clocks_differ_ms: int | None = None

    @property
    def phases(self) -> tuple[tuple[str, int | None], ...]:
        """The parts by their names, as they follow each other."""
        return (
            ("detected", self.detected_ms),
            ("decided", self.decided_ms),
            ("owned", self.owned_ms),
            ("first output", self.first_output_ms),
        )

    def __post_init__(self) -> None:
        if self.total_ms is not None and self.total_ms < -CLOCKS_AGREE_MS:
            object.__setattr__(self, "clocks_differ_ms", -self.total_ms)
            object.__setattr__(self, "total_ms", None)


@dataclass(frozen=True, kw_only=True)
class Rpo:
    """What a failure did to the input, in records; None where that is not known."""

    lost_records: int | None = None
    doubled_records: int | None = None


@dataclass(frozen=True, kw_only=True)
class HistoryRecord:
    """One thing that an application went through: ``docs/formats.md`` has its fields.

    Kept in ``<app>-history`` under ``<kind>/<id>``: its `id` is the same for every try, so a retry overwrites.

    Args:
        reason: why it failed or was skipped, or why a failover has no RTO although its tasks have committed; None
            otherwise.
        by_later_answer: of a failover, whether its tasks were brought back by a later one's answer.
    """

    application_id: str
    kind: HistoryKind
    id: str
    cause: str
    at_ms: int
    ended_at_ms: int | None = None
    by: str
    outcome: HistoryOutcome = HistoryOutcome.OPEN
    reason: str | None = None
    instances: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()
    decisions: tuple[Decision, ...] = ()
    evidence: str = ""
    rto: RtoParts = field(default_factory=RtoParts)
    rpo: Rpo = field(default_factory=Rpo)
    restores: tuple[TaskRestore, ...] = ()
    slo_rto_s: float | None = None
    predicted_rto_ms: int | None = None
    outputs: OutputCheck | None = None
    by_later_answer: bool = False

    def __post_init__(self) -> None:
        # A record has to fit into a Kafka record.
        object.__setattr__(self, "evidence", bounded(self.evidence))
        object.__setattr__(self, "reason", None if self.reason is None else bounded(self.reason))

    @property
    def slo_met(self) -> bool | None:
        """Whether the RTO is as promised; None where nothing is promised or measured."""
        if self.slo_rto_s is None or self.rto.total_ms is None:
            return None
        return self.rto.total_ms <= 1000 * self.slo_rto_s

    @property
    def prediction_error_percent(self) -> float | None:
        """How far the predicted RTO is above (or, negative, below) the measured one; None without both."""
        measured, predicted = self.rto.total_ms, self.predicted_rto_ms
        if measured is None or measured <= 0 or predicted is None:
            return None
        return round(100 * (predicted - measured) / measured, 1)

    @property
    def restored_records(self) -> int:
        """Changelog records that were applied, of all tasks."""
        return sum(restore.records for restore in self.restores)

    @property
    def restored_bytes(self) -> int:
        """The size of their keys and values."""
        return sum(restore.bytes for restore in self.restores)

    @property
    def restored_records_per_s(self) -> float | None:
        """The mean rate of a task's restore; None where none took any time."""
        took_s = sum(restore.took_s for restore in self.restores)
        return round(self.restored_records / took_s, 1) if took_s > 0 else None


def history_key(record: HistoryRecord) -> bytes:
    """The compacted key under which a record is kept."""
    return f"{record.kind.value}/{record.id}".encode()


def history_plain(record: HistoryRecord) -> dict[str, Any]:
    """A record as values that JSON knows, with what follows from them: ``slo_met`` and so on."""
    plain: dict[str, Any] = to_plain(record)
    derived = ("slo_met", "prediction_error_percent", "restored_records", "restored_bytes", "restored_records_per_s")
    return plain | {name: getattr(record, name) for name in derived}


def history_value(record: HistoryRecord) -> bytes:
    """JSON of a record, with the number of its format."""
    return to_json({"format": HISTORY_FORMAT, **history_plain(record)})


def read_history_value(value: bytes) -> HistoryRecord:
    """The inverse of `history_value`. Fields that this version does not know are ignored.

    Raises:
        msgspec.DecodeError: it is no such record, or one of a newer format.
    """
    return from_numbered_json(value, HistoryRecord, HISTORY_FORMAT)


@dataclass(frozen=True, kw_only=True)
class OutputCount:
    """The records of one topic, a sink or a dead-letter topic, between two moments.

    Args:
        committed: how many the commits of all tasks stand for.
        found: how many a reader of committed records finds.
        lost: how many offsets between the two moments were deleted although no setting of the topic explains it.
        settings: of the topic, that do not explain it; empty where nothing is lost.
    """

    topic: str
    committed: int
    found: int
    lost: int = 0
    settings: str = ""

    @property
    def missing(self) -> int:
        """How many are not there although they were committed."""
        return max(0, self.committed - self.found)

    @property
    def doubled(self) -> int:
        """How many are there that no commit stands for."""
        return max(0, self.found - self.committed)


@dataclass(frozen=True, kw_only=True)
class OutputCheck:
    """The outputs of a drill, from just before its fault until it was judged."""

    counts: tuple[OutputCount, ...] = ()
    unmeasured: str | None = None
