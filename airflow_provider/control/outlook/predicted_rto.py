"""How long each task would stand still if its active instance failed now: pure functions; the oldest record first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.common.store_signature import ROCKSDB
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.ranking import rank_copies, standby_copy
from airflow_provider.control.records.drill_fault import DRILLS
from airflow_provider.control.records.history import HistoryKind, HistoryRecord
from airflow_provider.control.records.incident import Action, IncidentKind
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.records.status import InstanceState, InstanceStatus, Role, TaskStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView

_DETECTED_REPORTED_MS: Final = 100
"""Until a launcher's report of its instance's end, or an instance's of its task, is seen, where none is on record."""
_REPORTED: Final = frozenset({IncidentKind.INSTANCE_ENDED, IncidentKind.TASK_FAILED})
_DECIDED_MS: Final = 3_000
"""From there until the next generation is published: the most that was measured on a busy machine."""
_OWNED_MS: Final = 500
_FIRST_OUTPUT_MS: Final = 1_000

_NEWEST: Final = 50
_QUANTILE: Final = 0.9
_TAKEN_OVER: Final = frozenset({Action.PROMOTE, Action.RENEW})
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


def phase_times(
    history: Sequence[HistoryRecord], timeouts: Timeouts, cause: IncidentKind | None = None, *, restarts: bool = False
) -> PhaseTimes:
    """From the newest 50 failovers of lost instances; a default for each phase that none of them measured.

    Args:
        timeouts: silence that counts as the end is the default of detection.
        cause: only failovers of this kind, where there is one; None for any. How long detection takes is never taken
            from those of another kind.
        restarts: only those in which a task found no copy on an instance that ran, and most often waited until one was
            started, which takes many times as long; False for only those in which every task did. Where a task was
            held, a person was waited for, so that is neither.
    """
    # Clocks that are known to differ measured no phase.
    failovers = [r for r in history if r.kind is HistoryKind.FAILOVER and r.rto.clocks_differ_ms is None]
    failovers = [r for r in failovers if _found_no_copy(r) is restarts]
    if restarts:  # no default says what a start takes
        failovers = [r for r in failovers if r.rto.total_ms is not None]
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


def _found_no_copy(record: HistoryRecord) -> bool | None:
    """Whether a task had no copy that could take over, or that one was gone too; None where one waited for a person."""
    actions = {one.action for one in record.decisions}
    return None if Action.HOLD in actions else record.by_later_answer or not actions <= _TAKEN_OVER


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
        bytes_per_s: keys and values; None where it is not known.
        measured: whether a restore on record says so, and not this package's default.
    """

    records_per_s: float = _RECORDS_PER_S
    bytes_per_s: float | None = None
    measured: bool = False


def restore_rate(
    instance: str | None, statuses: Mapping[str, InstanceStatus], history: Sequence[HistoryRecord]
) -> RestoreRate:
    """The mean rate of an instance's newest restores; of any instance where it has none on record; else a default."""
    for name in (instance, None) if instance else (None,):
        seen = [*_noted(name, history), *_reported(name, statuses)][-_RESTORES:]
        if (found := _mean_rate(seen)) is not None:
            return found
    return RestoreRate()


def observed_restore_rate(records: Sequence[MetricsRecord]) -> RestoreRate | None:
    """The mean rate of the newest restores that metrics saw under way, of any instance; None where they saw none."""
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
        phases: where another instance runs.
        restart: where none does, and the task waits until one is started; None where no failover says how long.
    """

    phases: PhaseTimes
    restart: PhaseTimes | None = None
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
    """What a history and the restores under way say."""
    names = {*statuses, *(restore.instance for record in history for restore in record.restores)}
    timeouts = timeouts or Timeouts()
    restart = phase_times(history, timeouts, restarts=True)
    return RtoBasis(
        phases=phase_times(history, timeouts, cause),
        restart=restart if restart.failovers else None,
        rates={name: restore_rate(name, statuses, history) for name in sorted(names)},
        any_rate=restore_rate(None, statuses, history),
    )


_KINDS = frozenset({HistoryKind.DRILL, HistoryKind.FAILOVER})


@dataclass(frozen=True, kw_only=True)
class PredictedRto:
    """What a failure of a task's active instance would cost now.

    Args:
        to: the instance that would take over; None where none runs, and its own would have to be started again.
        records: changelog records that it would have to apply first; None where that is not known.
        restore_ms: how long that takes; None where it is not known.
        phases: None where no failover says how long a start takes.
    """

    task: TaskId
    active: str
    to: str | None
    warm: bool
    records: int | None
    restore_ms: int | None
    phases: PhaseTimes | None
    rate: RestoreRate

    @property
    def measured(self) -> bool:
        """Whether failovers on record say how long it takes, and not this package's defaults."""
        return self.phases is not None and self.phases.failovers > 0

    @property
    def total_ms(self) -> int | None:
        """The RTO; None where how long a start or what has to be restored takes is not known."""
        return None if self.phases is None or self.restore_ms is None else self.phases.total_ms + self.restore_ms

    def __str__(self) -> str:
        phases = self.phases
        alone = f"task {self.task}: no other instance runs that could take it over from {self.active}"
        if phases is None:
            return f"{alone}, and how long a start takes is not known yet"
        if self.to is None:
            base = f"p90 of {phases.failovers} failover(s)"
            return f"{alone}: until that is started again and goes on, {_seconds(self.total_ms)} ({base})"
        steps = [("restored", self.restore_ms)]
        steps = [("detected", phases.detected_ms), ("decided", phases.decided_ms), ("owned", phases.owned_ms), *steps]
        parts = ", ".join(f"{name} {_seconds(ms)}" for name, ms in [*steps, ("first output", phases.first_output_ms)])
        copy = "a warm standby" if self.warm else "no warm standby"
        records = "an unknown number of records" if self.records is None else f"{self.records:,} records"
        rate = f"{self.rate.records_per_s:,.0f}/s{'' if self.rate.measured else ' by default'}"
        base = f"p90 of {phases.failovers} failover(s)" if phases.failovers else "by default, no failover is on record"
        return (
            f"task {self.task} from {self.active} to {self.to}, {copy}: {_seconds(self.total_ms)} ({parts}; "
            f"{records} at {rate}; {base})"
        )


def predict_rto(
    view: ControlView,
    history: Sequence[HistoryRecord],
    healthy: Collection[str],
    timeouts: Timeouts | None = None,
    cause: IncidentKind | None = None,
) -> dict[TaskId, PredictedRto]:
    """Of each task that has an active instance, what its failure would cost now.

    Where another instance runs, the sum of the 90th percentile of each phase, and of what the instance that a failover
    would choose has to restore: its lag where it has a copy; else all of the changelog, which is as long as its offsets
    say at the most, and about as large as the active's store on disk. Tasks of one instance are restored side by side;
    the rates that were seen are those of a task among others, too. Where none runs, what the failovers took in which a
    start was waited for.
    """
    return predict_by(view, rto_basis(history, view.statuses, timeouts, cause), healthy)


def predict_by(view: ControlView, basis: RtoBasis, healthy: Collection[str]) -> dict[TaskId, PredictedRto]:
    """The same, by what was taken from a history."""
    if view.assignment is None:
        return {}
    load = Counter(task.active for task in view.assignment.tasks.values() if task.active)
    # One that starts takes as long as a start does.
    running = [n for n in healthy if (one := view.statuses.get(n)) is None or one.state is InstanceState.RUNNING]
    found = {}
    for task_id, given in view.assignment.tasks.items():
        if given.active is None:
            continue
        to = _next_owner(view, task_id, given.active, given.standbys, running, load)
        status, active = view.statuses.get(to) if to else None, view.statuses.get(given.active)
        copy, rate = standby_copy(status, task_id), basis.rate_of(to)
        records, restore_ms = _restore(copy, active, task_id, rate, in_place=to is None)
        found[task_id] = PredictedRto(
            task=task_id,
            active=given.active,
            to=to,
            warm=copy is not None and copy.warm,
            records=records,
            restore_ms=restore_ms,
            phases=basis.restart if to is None else basis.phases,
            rate=rate,
        )
    return found


def worst_rto_ms(predicted: Iterable[PredictedRto]) -> int | None:
    """The greatest of them: when the last task would be back; None where that of one, or any, is not known."""
    totals = [one.total_ms for one in predicted]
    known = [total for total in totals if total is not None]
    return max(known) if known and len(known) == len(totals) else None


def _next_owner(
    view: ControlView,
    task_id: TaskId,
    active: str,
    standbys: Collection[str],
    healthy: Collection[str],
    load: Mapping[str, int],
) -> str | None:
    """Whom a failover would choose (see `control.failover.decide`)."""
    candidates = [name for name in healthy if name != active]
    copies = [name for name in candidates if standby_copy(view.statuses.get(name), task_id) is not None]
    preferred = copies or [name for name in standbys if name in candidates] or candidates
    return next(iter(rank_copies(task_id, preferred, view.statuses, load)), None)


def _restore(
    copy: TaskStatus | None, active: InstanceStatus | None, task_id: TaskId, rate: RestoreRate, *, in_place: bool
) -> tuple[int | None, int | None]:
    """How many records have to be applied, and for how many ms; None where that is not known.

    Args:
        in_place: whether the active's own instance is started again, where a store on disk is still there.
    """
    if copy is not None and copy.lag_records is not None:
        return copy.lag_records, _ms(copy.lag_records / rate.records_per_s)
    task = active.task(task_id) if active else None
    if in_place and task is not None and task.store_kind == ROCKSDB:
        return 0, 0
    if active is None or task is None or task.end is None:
        return None, None
    seconds = task.end / rate.records_per_s
    if rate.bytes_per_s and active.disk.used_bytes:
        # A changelog that was compacted holds far fewer records than offsets.
        seconds = min(seconds, active.disk.used_bytes / len(active.tasks) / rate.bytes_per_s)
    return task.end, _ms(seconds)


def _ms(seconds: float) -> int:
    return round(1000 * seconds)


def _seconds(ms: int | None) -> str:
    return "an unknown time" if ms is None else f"{ms / 1000:.1f} s"


def measured_rto_ms(history: Iterable[HistoryRecord]) -> dict[TaskId, int]:
    """By task, the RTO of the newest failover that moved it and was measured: that of the last of its tasks."""
    return {
        task: record.rto.total_ms
        for record in history
        if record.kind in _KINDS and record.rto.total_ms is not None
        for task in record.tasks
    }
