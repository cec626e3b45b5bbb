"""All that an application's metrics say of its future."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.metrics.record import MetricsRecord
from airflow_provider.control.outlook.changelog_growth import ChangelogGrowth, changelog_growths
from airflow_provider.control.outlook.disk import forecast_disks
from airflow_provider.control.outlook.forecast import DAY_S, Forecast, Outlook
from airflow_provider.control.outlook.replay import forecast_replays
from airflow_provider.control.outlook.rto_basis import RtoBasis
from airflow_provider.control.outlook.series import sampled

__all__ = ["MetricsForecasts", "days", "metrics_forecasts", "mib"]

_MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class MetricsForecasts:
    """What lies ahead if things go on as they do.

    Args:
        disks: by instance, when its disk has too little left, in bytes.
        growths: by task, how fast its changelog grows.
        replays: by task, when a failover that replays its whole changelog takes too long, in seconds; empty where no
            RTO is promised.
    """

    disks: dict[str, Forecast] = field(default_factory=dict)
    growths: dict[TaskId, ChangelogGrowth] = field(default_factory=dict)
    replays: dict[TaskId, Forecast] = field(default_factory=dict)

    def lines(self) -> tuple[str, ...]:
        """A line for people of each."""
        return (
            *(f"disk of {name}: {_disk_line(disk)}" for name, disk in self.disks.items()),
            *(f"changelog of task {task}: {_growth_line(growth)}" for task, growth in self.growths.items()),
            *(f"replay of task {task}: {_replay_line(replay)}" for task, replay in self.replays.items()),
        )

    def plain(self) -> dict[str, Any]:
        """The same as values that JSON knows."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def metrics_forecasts(
    records: Sequence[MetricsRecord],
    now_ms: int,
    *,
    instances: Collection[str] | None = None,
    min_free_bytes: int | None = None,
    max_rto_s: float | None = None,
    basis: RtoBasis | None = None,
) -> MetricsForecasts:
    """All forecasts.

    Args:
        records: the oldest first.
        now_ms: epoch ms.
        instances: those whose disks matter; None for all that wrote a record.
        min_free_bytes: what a disk has to have left; None for nothing.
        max_rto_s: what a failover may take that replays a whole changelog; None for no such promise.
        basis: what failovers take, from the history; needed with `max_rto_s`.
    """
    records = sampled(records)
    disks = forecast_disks(records, now_ms, min_free_bytes)
    replays = {}
    if max_rto_s is not None and basis is not None:
        replays = forecast_replays(records, basis, max_rto_s, now_ms)
    return MetricsForecasts(
        disks={name: disk for name, disk in disks.items() if instances is None or name in instances},
        growths=changelog_growths(records, now_ms),
        replays=replays,
    )


def days(seconds: float) -> str:
    """A time for people."""
    return f"{seconds / DAY_S:,.1f} days" if seconds >= DAY_S else f"{seconds / 3600:,.1f} hours"


def mib(size: float) -> str:
    """A size for people."""
    return f"{size / _MIB:,.1f} MiB"


def _disk_line(disk: Forecast) -> str:
    limit = "full" if disk.limit <= 0 else f"below {mib(disk.limit)}"
    free = "" if disk.value is None else f"{mib(disk.value)} free, "
    change = "" if disk.per_day is None else f"{mib(disk.per_day)} a day; "
    return f"{free}{change}{_outlook(disk, limit)}"


def _replay_line(replay: Forecast) -> str:
    takes = "" if replay.value is None else f"a failover without a copy takes {replay.value:,.1f} s, "
    change = "" if replay.per_day is None else f"{replay.per_day:+,.1f} s a day; "
    return f"{takes}{change}{_outlook(replay, f'above {replay.limit:g} s')}"


def _growth_line(growth: ChangelogGrowth) -> str:
    if growth.records_per_day is None:
        return f"not enough records: {growth.why}"
    size = "" if growth.store_bytes_per_day is None else f", its store {mib(growth.store_bytes_per_day)} a day"
    return f"grows by {growth.records_per_day:,.0f} records a day{size}"


def _outlook(forecast: Forecast, limit: str) -> str:
    match forecast.outlook:
        case Outlook.NOT_ENOUGH:
            return f"not enough records: {forecast.why}"
        case Outlook.REACHED:
            return f"{limit} now"
        case Outlook.AHEAD:
            return f"{limit} in {days(forecast.in_s or 0.0)}"
        case Outlook.LATER:
            return f"{limit} later than the records tell"
        case Outlook.STEADY:
            return f"not {limit} as things go"
