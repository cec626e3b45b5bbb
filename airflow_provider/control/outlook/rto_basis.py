"""What predictions rest on: how long the phases of failovers took so far, and how fast instances restore."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.drill_fault import DRILLS
from airflow_provider.control.records.history import HistoryKind, HistoryRecord
from airflow_provider.control.records.incident import IncidentKind
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.records.status import InstanceStatus, Role
from airflow_provider.control.topics.liveness import Timeouts

_DETECTED_REPORTED_MS: Final = 100
"""Until a launcher's report of its instance's end, or an instance's of its task, is seen, where none is on record."""
_REPORTED: Final = frozenset({IncidentKind.INSTANCE_ENDED, IncidentKind.TASK_FAILED})
_DECIDED_MS: Final = 3_000
"""From there until the next generation is published: the most that was measured on a busy machine."""
_OWNED_MS: Final = 500
_FIRST_OUTPUT_MS: Final = 1_000

_NEWEST: Final = 50
_QUANTILE: Final = 0.9
_OF_LOST_INSTANCES: Final = frozenset(kind.value for kind in IncidentKind if kind.needs_replacement)
_RECORDS_PER_S: Final = 100_000.0
"""Where no restore is on record: a seventh of what was measured on an idle machine."""
_MIN_RECORDS: Final = 10_000
"""A smaller restore says more about the time that a fetch takes than about a rate."""
_RESTORES: Final = 20
_UNANSWERED: Final = frozenset(kind.value for kind, spec in DRILLS.items() if spec.cause is None)


@dataclass(frozen=True, kw_only=True)
class PhaseTimes:
    """What a failover takes apart from restoring: the 90th percentile of each phase, in ms.

    Args:
        detected_ms: until a watcher sees the failure.
        decided_ms: from there until the next generation is published.
        owned_ms: from there until the next instance owns the task.
        first_output_ms: from there until it commits, without what it restores.
        failovers: how many failovers say so; 0 where all are this package's defaults.
    """

    detected_ms: int
    decided_ms: int
    owned_ms: int
    first_output_ms: int
    failovers: int = 0

    @property
    def total_ms(self) -> int:
        """All of them."""
        return self.detected_ms + self.decided_ms + self.owned_ms + self.first_output_ms


def phase_times(history: Sequence[HistoryRecord], timeouts: Timeouts, cause: IncidentKind | None = None) -> PhaseTimes:
    """From the newest 50 failovers of lost instances; a default for each phase that none of them measured.

    Args:
        history: the oldest first.
        timeouts: silence that counts as the end is the default of detection.
        cause: only failovers of this kind, where there is one; None for any. How long detection takes is never taken
            from those of another kind.
    """
    # Clocks that are known to differ measured no phase.
    failovers = [r for r in history if r.kind is HistoryKind.FAILOVER and r.rto.clocks_differ_ms is None]
    lost = [record for record in failovers if record.cause in _OF_LOST_INSTANCES]
    alike = [record for record in failovers if cause is not None and record.cause == cause.value]
    newest = (alike or lost)[-_NEWEST:]
    # A silence takes its timeout, an end that is reported no time: one says nothing of the other.
    found_alike = newest if cause is None else alike[-_NEWEST:]
    detected_ms = _DETECTED_REPORTED_MS if cause in _REPORTED else round(1000 * timeouts.instance_s)
    return PhaseTimes(
        detected_ms=_p90((record.rto.detected_ms for record in found_alike), detected_ms),
        decided_ms=_p90((record.rto.decided_ms for record in newest), _DECIDED_MS),
        owned_ms=_p90((record.rto.owned_ms for record in newest), _OWNED_MS),
        first_output_ms=_p90(map(_output_without_restore, newest), _FIRST_OUTPUT_MS),
        failovers=len(newest),
    )


def _output_without_restore(record: HistoryRecord) -> int | None:
    took_s = max((restore.took_s for restore in record.restores), default=0.0)
    output = record.rto.first_output_ms
    return None if output is None else max(0, output - round(1000 * took_s))


def _p90(times: Iterable[int | None], default: int) -> int:
    # Clocks of several hosts: a part can be below zero.
    known = sorted(max(0, time) for time in times if time is not None)
    return known[math.ceil(_QUANTILE * len(known)) - 1] if known else default


@dataclass(frozen=True, kw_only=True)
class RestoreRate:
    """How fast an instance restores a task.

    Args:
        records_per_s: changelog records.
        bytes_per_s: keys and values; None where it is not known.
        measured: whether a restore on record says so, and not this package's default.
    """

    records_per_s: float = _RECORDS_PER_S
    bytes_per_s: float | None = None
    measured: bool = False


def restore_rate(
    instance: str | None, statuses: Mapping[str, InstanceStatus], history: Sequence[HistoryRecord]
) -> RestoreRate:
    """The mean rate of an instance's newest restores; of any instance where it has none on record; else a default.

    Args:
        instance: its name; None for any.
        statuses: the newest status of each instance.
        history: the oldest first.
    """
    for name in (instance, None) if instance else (None,):
        seen = [*_noted(name, history), *_reported(name, statuses)][-_RESTORES:]
        if (found := _mean_rate(seen)) is not None:
            return found
    return RestoreRate()


def observed_restore_rate(records: Sequence[MetricsRecord]) -> RestoreRate | None:
    """The mean rate of the newest restores that metrics saw under way, of any instance; None where they saw none.

    Args:
        records: the oldest first.
    """
    seen: dict[tuple[str, int, TaskId], _Restore] = {}
    for record in records:
        for task in record.tasks:
            if task.restoring and task.restored_records >= _MIN_RECORDS and task.restore_took_s > 0:
                key = (record.instance, record.incarnation, task.task)
                seen.pop(key, None)  # the newest restores are to be the last
                seen[key] = (task.restored_records, task.restored_bytes, task.restore_took_s)
    return _mean_rate([*seen.values()][-_RESTORES:])


_Restore = tuple[int, int, float]


def _mean_rate(seen: Sequence[_Restore]) -> RestoreRate | None:
    took_s = sum(seconds for _, _, seconds in seen)
    if took_s <= 0:
        return None
    return RestoreRate(
        records_per_s=sum(records for records, _, _ in seen) / took_s,
        bytes_per_s=(sum(size for _, size, _ in seen) / took_s) or None,
        measured=True,
    )


def _noted(instance: str | None, history: Sequence[HistoryRecord]) -> Iterator[_Restore]:
    for record in history:
        # A drill's failover has a record of its own, with the same restores.
        twice = record.kind is HistoryKind.DRILL and record.cause not in _UNANSWERED
        for restore in () if twice else record.restores:
            if instance in (None, restore.instance) and restore.records >= _MIN_RECORDS and restore.took_s > 0:
                yield restore.records, restore.bytes, restore.took_s


def _reported(instance: str | None, statuses: Mapping[str, InstanceStatus]) -> Iterator[_Restore]:
    """Restores under way. What a standby follows after its restore counts as records, too, so it gives no rate."""
    for name, status in sorted(statuses.items()):
        for task in status.tasks if instance in (None, name) else ():
            restore = task.restore
            restoring = restore.phase is not None or task.role is Role.ACTIVE
            if restoring and restore.records >= _MIN_RECORDS and restore.took_s > 0:
                yield restore.records, restore.bytes, restore.took_s


@dataclass(frozen=True, kw_only=True)
class RtoBasis:
    """What is the same for all tasks. Crosses from a worker to a triggerer as plain values.

    Args:
        phases: what a failover takes apart from restoring.
        rates: by instance, how fast it restores.
        any_rate: of an instance that is not among them.
    """

    phases: PhaseTimes
    rates: dict[str, RestoreRate] = field(default_factory=dict)
    any_rate: RestoreRate = field(default_factory=RestoreRate)

    def rate_of(self, instance: str | None) -> RestoreRate:
        """How fast an instance restores."""
        return self.rates.get(instance or "", self.any_rate)


def rto_basis(
    history: Sequence[HistoryRecord],
    statuses: Mapping[str, InstanceStatus],
    timeouts: Timeouts | None = None,
    cause: IncidentKind | None = None,
) -> RtoBasis:
    """What a history and the restores under way say.

    Args:
        history: what the application went through, the oldest first.
        statuses: the newest status of each instance.
        timeouts: by which an instance counts as gone; None for the defaults.
        cause: how an instance would fail; None for any way.
    """
    names = {*statuses, *(restore.instance for record in history for restore in record.restores)}
    return RtoBasis(
        phases=phase_times(history, timeouts or Timeouts(), cause),
        rates={name: restore_rate(name, statuses, history) for name in sorted(names)},
        any_rate=restore_rate(None, statuses, history),
    )
