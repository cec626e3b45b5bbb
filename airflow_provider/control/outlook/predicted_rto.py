"""How long each task would stand still if its active instance failed now, and what failovers cost: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.rto_basis import PhaseTimes, RestoreRate, RtoBasis, rto_basis
from airflow_provider.control.placement.ranking import rank_copies, standby_copy
from airflow_provider.control.records.history import HistoryKind, HistoryRecord
from airflow_provider.control.records.incident import IncidentKind
from airflow_provider.control.records.status import InstanceStatus, TaskStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView

_KINDS = frozenset({HistoryKind.DRILL, HistoryKind.FAILOVER})


@dataclass(frozen=True, kw_only=True)
class PredictedRto:
    """What a failure of a task's active instance would cost now.

    Args:
        active: the instance whose failure is meant.
        to: the instance that would take over; None where there is none.
        warm: whether it has a warm standby.
        records: changelog records that it would have to apply first; None where that is not known.
        restore_ms: how long that takes; None where it is not known.
        phases: the rest.
        rate: by which it would restore.
    """

    task: TaskId
    active: str
    to: str | None
    warm: bool
    records: int | None
    restore_ms: int | None
    phases: PhaseTimes
    rate: RestoreRate

    @property
    def total_ms(self) -> int | None:
        """The RTO; None where no instance could take over, or what it would have to restore is not known."""
        if self.to is None or self.restore_ms is None:
            return None
        return self.phases.total_ms + self.restore_ms

    def __str__(self) -> str:
        """One line for a log."""
        if self.to is None:
            return f"task {self.task}: no other instance could take it over from {self.active}"
        phases, steps = self.phases, [("restored", self.restore_ms)]
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

    The sum of the 90th percentile of each phase, and of what the instance that a failover would choose has to restore:
    its lag where it has a copy; else all of the changelog, which is as long as its offsets say at the most, and about
    as large as the active's store on disk. Tasks of one instance are restored side by side; the rates that were seen
    are those of a task among others, too.

    Args:
        history: what the application went through, the oldest first.
        healthy: the instances that live.
        timeouts: by which an instance counts as gone; None for the defaults.
        cause: how the instance would fail; None for any way.
    """
    return predict_by(view, rto_basis(history, view.statuses, timeouts, cause), healthy)


def predict_by(view: ControlView, basis: RtoBasis, healthy: Collection[str]) -> dict[TaskId, PredictedRto]:
    """The same, by what was taken from a history.

    Args:
        basis: what the prediction rests on.
        healthy: the instances that live.
    """
    if view.assignment is None:
        return {}
    load = Counter(task.active for task in view.assignment.tasks.values() if task.active)
    found = {}
    for task_id, given in view.assignment.tasks.items():
        if given.active is None:
            continue
        to = _next_owner(view, task_id, given.active, given.standbys, healthy, load)
        status = view.statuses.get(to) if to else None
        copy, rate = standby_copy(status, task_id), basis.rate_of(to)
        records, restore_ms = _restore(copy, view.statuses.get(given.active), task_id, rate)
        found[task_id] = PredictedRto(
            task=task_id,
            active=given.active,
            to=to,
            warm=copy is not None and copy.warm,
            records=records,
            restore_ms=restore_ms,
            phases=basis.phases,
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
    copy: TaskStatus | None, active: InstanceStatus | None, task_id: TaskId, rate: RestoreRate
) -> tuple[int | None, int | None]:
    """How many records have to be applied, and for how many ms; None where that is not known."""
    if copy is not None and copy.lag_records is not None:
        return copy.lag_records, _ms(copy.lag_records / rate.records_per_s)
    task = active.task(task_id) if active else None
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
    """By task, the RTO of the newest failover that moved it and was measured: that of the last of its tasks.

    Args:
        history: the oldest first.
    """
    return {
        task: record.rto.total_ms
        for record in history
        if record.kind in _KINDS and record.rto.total_ms is not None
        for task in record.tasks
    }
