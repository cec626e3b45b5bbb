"""What predictions rest on: the part of the history that says how long failovers take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider.control.history.record import HistoryRecord
from airflow_provider.control.incident import IncidentKind
from airflow_provider.control.liveness import Timeouts
from airflow_provider.control.outlook.phase_times import PhaseTimes, phase_times
from airflow_provider.control.outlook.restore_rate import RestoreRate, restore_rate
from airflow_provider.control.status import InstanceStatus

__all__ = ["RtoBasis", "rto_basis"]


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
