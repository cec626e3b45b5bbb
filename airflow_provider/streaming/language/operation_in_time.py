"""From what a job says of time to the operation that keeps it."""

from __future__ import annotations

import dataclasses

from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.aggregates.drop_duplicates import DropDuplicates
from airflow_provider.streaming.aggregates.session_aggregate import SessionAggregation
from airflow_provider.streaming.aggregates.windowed_aggregate import Emit, WindowedAggregation
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.terms.event_time import EventTime
from airflow_provider.streaming.terms.windows import SessionWindow, Window


def operation_in_time(
    operation: Operation, window: Window | SessionWindow | None, event_time: EventTime | None, emit: Emit
) -> Operation:
    """An operation, with its windows where it has them; `time_check.check_time` has found that they fit together.

    Args:
        operation: as the user wrote it.
        window: None for none.
        event_time: of the rows; None where none is read.
        emit: when it emits.
    """
    if isinstance(operation, DropDuplicates):
        return dataclasses.replace(operation, event_time=event_time)
    if window is None:
        return operation
    assert isinstance(operation, Aggregation)
    assert event_time is not None
    aggregates, by, delay_ms = operation.aggregates, operation.by, event_time.delay_ms
    if isinstance(window, Window):
        return WindowedAggregation(aggregates=aggregates, by=by, windows=window, delay_ms=delay_ms, emit=emit)
    return SessionAggregation(aggregates=aggregates, by=by, windows=window, delay_ms=delay_ms, emit=emit)
