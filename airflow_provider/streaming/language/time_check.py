"""Whether what a job says of time fits together, and the operation that keeps it: before Spark starts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, get_args

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.aggregates.drop_duplicates import DropDuplicates
from airflow_provider.streaming.aggregates.session_aggregate import SessionAggregation
from airflow_provider.streaming.aggregates.windowed_aggregate import WINDOW, Emit, WindowedAggregation
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.language.join import Join
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.terms.event_time import EventTime
from airflow_provider.streaming.terms.windows import SessionWindow, Window

if TYPE_CHECKING:
    from airflow_provider.streaming.language.stream import Stream


def check_emit(emit: object) -> None:
    """Refuse what `aggregate(emit=...)` does not know."""
    if emit not in get_args(Emit):
        raise ConfigurationError(f"aggregate() got emit={emit!r}: give {' or '.join(map(repr, get_args(Emit)))}.")


def check_window(window: Window | SessionWindow, event_time: EventTime | None) -> None:
    """Refuse windows without event time, or of another one."""
    if event_time is None:
        raise ConfigurationError(
            f"group_by() got {window.text}, and the source has no event time: name it, and say for how long late "
            f"records are waited for, with event_time={window.column!r}, watermark='10 minutes' where the source is "
            "named."
        )
    if window.column.lower() != event_time.column.lower():
        raise ConfigurationError(
            f"group_by() got {window.text}, and the source's event time is {event_time.column!r}: a task has one time, "
            "by which its windows close. Name the same column in both."
        )


def check_time(
    event_time: EventTime | None, key: str, window: Window | SessionWindow | None, operation: Operation, emit: Emit
) -> None:
    """Refuse windows without event time, or of another one, and what windows cannot be had with."""
    if isinstance(operation, DropDuplicates):
        if event_time is None:
            raise ConfigurationError(
                "drop_duplicates() needs an event time, by which it forgets: name it, and say for how long late "
                "records are waited for, with event_time='at', watermark='10 minutes' where the source is named."
            )
        return
    if window is None:
        if emit != "update":
            raise ConfigurationError(
                f"aggregate() got emit={emit!r} without windows: a state that has no window never closes. Group by "
                'window("at", "1 hour") too, or leave emit out.'
            )
        return
    check_window(window, event_time)
    if not isinstance(operation, Aggregation):
        raise ConfigurationError(
            f"group_by() got {window.text} for process(): its function keeps one state for each key. Use aggregate(), "
            "or make the window a part of the key with with_column()."
        )
    if isinstance(window, SessionWindow):
        for aggregate in operation.aggregates:
            if aggregate.function in (Function.FIRST, Function.LAST):
                raise ConfigurationError(
                    f"aggregate() names {aggregate.name!r} in a session: where two sessions become one, nobody knows "
                    "which of their rows came first. Use min or max, or a window() of one size."
                )
    if WINDOW in (key, *operation.by, *(aggregate.name for aggregate in operation.aggregates)):
        raise ConfigurationError(
            f"A job with windows cannot have a key or a result named {WINDOW!r}: the output has the window there. "
            "Name a result otherwise with alias(), a key with with_column()."
        )


def operation_in_time(
    operation: Operation, window: Window | SessionWindow | None, event_time: EventTime | None, emit: Emit
) -> Operation:
    """An operation, with its windows where it has them; `time_check.check_time` has found that they fit together."""
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


def refuse_missing_time(method: str, stream: Stream) -> None:
    """Refuse to ask for an event time behind a join of two streams, with what to do instead.

    Other streams without one pass: what needs it says how to name it.
    """
    for branch in stream.branches:
        if branch.event_time is None and _is_of_two_streams(branch.origin):
            raise ConfigurationError(
                f"{method} needs an event time, and the result of a join of two streams has no event time yet "
                f"({branch.topic}): write it to a topic with sink(), and read that with event_time=... and "
                "watermark=... in another job."
            )


def _is_of_two_streams(join: Join | None) -> bool:
    if join is None or not isinstance(join.operation, StreamTableJoin):
        return join is not None and isinstance(join.operation, IntervalJoin)
    return any(_is_of_two_streams(branch.origin) for branch in join.left.branches)
