"""When the disks of an application's instances are full: a pure function of its metrics."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.control.metrics.record import MetricsRecord
from airflow_provider.control.outlook.forecast import Forecast, forecast
from airflow_provider.control.outlook.series import disk_series

__all__ = ["forecast_disks"]


def forecast_disks(
    records: Sequence[MetricsRecord], now_ms: int, min_free_bytes: int | None = None
) -> dict[str, Forecast]:
    """By instance, when its disk has no more than so many bytes left.

    Args:
        records: the oldest first.
        now_ms: epoch ms.
        min_free_bytes: the limit; None for 0, a disk that is full.
    """
    return {
        name: forecast(points, min_free_bytes or 0, rises=False, now_ms=now_ms, jumps=True)
        for name, points in sorted(disk_series(records).items())
    }
