"""From what a job says of time to the operation that keeps it."""

from __future__ import annotations

from typing import Final

from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.operations.aggregate import Aggregation
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.session_aggregate import SessionAggregation
from airflow_provider.streaming.operations.windowed_aggregate import WindowedAggregation
from airflow_provider.streaming.windows import Window

__all__ = ["changelog_retention_ms", "operation_in_time"]

_STANDSTILL_MS: Final = 7 * 86_400_000
"""For so long a source may bring nothing, and its open windows are in the changelog still: Kafka's own default, after
which the source has lost what was not read."""


def changelog_retention_ms(job: StatefulJob) -> int | None:
    """For how long the changelog of a job with windows keeps a record at least; None without windows.

    The brokers delete by their clock, and windows close by event time: so it is the time from a window's first record
    to its end, with what is waited for late ones, and a week in which the event time may stand still.

    Args:
        job: checked.
    """
    if job.window is None or job.event_time is None:
        return None
    lasts_ms = job.window.size_ms if isinstance(job.window, Window) else job.window.gap_ms
    return lasts_ms + job.event_time.delay_ms + _STANDSTILL_MS


def operation_in_time(job: StatefulJob) -> Operation:
    """The operation of a job, with its windows where it has them.

    Args:
        job: checked.
    """
    assert job.operation is not None
    if job.window is None:
        return job.operation
    assert isinstance(job.operation, Aggregation)
    assert job.event_time is not None
    aggregates, delay_ms = job.operation.aggregates, job.event_time.delay_ms
    if isinstance(job.window, Window):
        return WindowedAggregation(aggregates=aggregates, windows=job.window, delay_ms=delay_ms, emit=job.emit)
    return SessionAggregation(aggregates=aggregates, windows=job.window, delay_ms=delay_ms, emit=job.emit)
