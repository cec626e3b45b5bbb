"""When the loss of every copy of a task costs more than is promised: a pure function of an application's metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.metrics.record import MetricsRecord
from airflow_provider.control.outlook.forecast import Forecast, Outlook, forecast
from airflow_provider.control.outlook.phase_times import PhaseTimes
from airflow_provider.control.outlook.restore_rate import RestoreRate, observed_restore_rate
from airflow_provider.control.outlook.rto_basis import RtoBasis
from airflow_provider.control.outlook.series import changelog_series, store_series
from airflow_provider.control.outlook.trend import Point

__all__ = ["forecast_replays"]

_LATEST: Final = (Outlook.REACHED, Outlook.AHEAD, Outlook.NOT_ENOUGH, Outlook.LATER, Outlook.STEADY)


def forecast_replays(
    records: Sequence[MetricsRecord], basis: RtoBasis, max_rto_s: float, now_ms: int
) -> dict[TaskId, Forecast]:
    """By task, when a failover that has to replay its whole changelog takes more than so many seconds.

    What it takes is predicted as `predicted_rto.predict_rto` does for a task without a copy: the phases, and all
    offsets of the changelog by the rate of records, or what the active's store holds by the rate of bytes, whichever is
    sooner. So a changelog that is compacted to a store that does not grow never gets there. The figures of the
    forecasts are seconds. Without a restore on record, in the history or in the metrics, nothing is told.

    Args:
        records: the oldest first.
        basis: by which it is predicted.
        max_rto_s: the limit, from the failure to the next output.
        now_ms: epoch ms.
    """
    rate = basis.any_rate if basis.any_rate.measured else observed_restore_rate(records)
    found, sizes = {}, store_series(records)
    for task_id, ends in sorted(changelog_series(records).items()):
        if rate is None:
            why = "no restore of 10,000 records or more is on record"
            found[task_id] = Forecast(outlook=Outlook.NOT_ENOUGH, value=None, limit=max_rto_s, why=why)
        else:
            found[task_id] = _forecast(ends, sizes.get(task_id, ()), rate, _fixed_s(basis.phases), max_rto_s, now_ms)
    return found


def _forecast(
    ends: Sequence[Point], sizes: Sequence[Point], rate: RestoreRate, fixed_s: float, max_rto_s: float, now_ms: int
) -> Forecast:
    ways = [_in_seconds(ends, rate.records_per_s, fixed_s, max_rto_s, now_ms)]
    if rate.bytes_per_s and sizes:
        ways.append(_in_seconds(sizes, rate.bytes_per_s, fixed_s, max_rto_s, now_ms))
    # The replay takes the shorter of both, so it is over the limit when the later one is.
    latest = max(ways, key=lambda way: (_LATEST.index(way.outlook), way.in_s or 0.0))
    known = [way.value for way in ways if way.value is not None]
    return dataclasses.replace(latest, value=min(known, default=None))


def _in_seconds(points: Sequence[Point], per_s: float, fixed_s: float, max_rto_s: float, now_ms: int) -> Forecast:
    seconds = [Point(point.at_ms, fixed_s + point.value / per_s, point.run) for point in points]
    return forecast(seconds, max_rto_s, rises=True, now_ms=now_ms)


def _fixed_s(phases: PhaseTimes) -> float:
    return (phases.detected_ms + phases.decided_ms + phases.owned_ms + phases.first_output_ms) / 1000
