"""From what a job says of time to the operation that keeps it."""

from __future__ import annotations

from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.operations.aggregate import Aggregation
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.session_aggregate import SessionAggregation
from airflow_provider.streaming.operations.windowed_aggregate import WindowedAggregation
from airflow_provider.streaming.windows import Window

__all__ = ["operation_in_time"]


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
