"""From what a job says of time to the operation that keeps it."""

from __future__ import annotations

import dataclasses

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.column_check import RECORD, columns_after
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.operations.aggregate import Aggregation
from airflow_provider.streaming.operations.drop_duplicates import DropDuplicates
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.session_aggregate import SessionAggregation
from airflow_provider.streaming.operations.windowed_aggregate import WindowedAggregation
from airflow_provider.streaming.windows import Window

__all__ = ["operation_in_time"]


def operation_in_time(job: StatefulJob) -> Operation:
    """The operation of a job, with its windows where it has them.

    Args:
        job: checked.

    Raises:
        ConfigurationError: all columns come out of it, and they are known to Spark alone.
    """
    assert job.operation is not None
    if isinstance(job.operation, DropDuplicates):
        columns = columns_after(job.schema, job.steps)
        if columns is None or job.schema is None:
            raise ConfigurationError(
                f"drop_duplicates() of job {job.application_id!r} writes all columns as JSON, and those of the schema "
                f"{job.schema!r} are not known here: give source(schema=...) the columns, with plain types."
            )
        names = tuple(name for name in columns if name != RECORD)
        return dataclasses.replace(job.operation, columns=names, event_time=job.event_time)
    if job.window is None:
        return job.operation
    assert isinstance(job.operation, Aggregation)
    assert job.event_time is not None
    aggregates, delay_ms = job.operation.aggregates, job.event_time.delay_ms
    if isinstance(job.window, Window):
        return WindowedAggregation(aggregates=aggregates, windows=job.window, delay_ms=delay_ms, emit=job.emit)
    return SessionAggregation(aggregates=aggregates, windows=job.window, delay_ms=delay_ms, emit=job.emit)
