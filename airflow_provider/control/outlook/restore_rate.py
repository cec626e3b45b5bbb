"""How fast an instance restores, by what it has shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.kind import DRILLS
from airflow_provider.control.history.record import HistoryKind, HistoryRecord
from airflow_provider.control.metrics.record import MetricsRecord
from airflow_provider.control.status import InstanceStatus, Role

__all__ = ["RestoreRate", "observed_restore_rate", "restore_rate"]

_RECORDS_PER_S: Final = 100_000.0
"""Where no restore is on record: a seventh of what was measured on an idle machine."""
_MIN_RECORDS: Final = 10_000
"""A smaller restore says more about the time that a fetch takes than about a rate."""
_RESTORES: Final = 20
_UNANSWERED: Final = frozenset(kind.value for kind, spec in DRILLS.items() if spec.cause is None)


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
