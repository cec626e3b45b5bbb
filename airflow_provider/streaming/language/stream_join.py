"""What a stream is joined or united with, checked where it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_rows import How
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.language.column_check import check_event_time
from airflow_provider.streaming.language.join import Join, check_how, joined_columns
from airflow_provider.streaming.language.table import Table, check_table_key
from airflow_provider.streaming.language.time_check import refuse_missing_time
from airflow_provider.streaming.terms.argument_check import duration_ms

if TYPE_CHECKING:
    from airflow_provider.streaming.language.stream import Stream


def join_with_table(
    left: Stream, right: Table, on: str, how: How, history: str | None, grace: str | None = None
) -> Join:
    """A stream's rows with those of a table; see `Stream.join`.

    Raises:
        ConfigurationError: they cannot be joined.
    """
    check_how(how, ("inner", "left"), ": a table's rows do not come by themselves when a stream is joined with it")
    columns, types = joined_columns(left, right, on)
    check_table_key(right, on)
    for branch in left.branches:
        _check_time(branch)
    history_ms = None if history is None else duration_ms("join(history=...)", history, zero=True)
    grace_ms = None if grace is None else duration_ms("join(grace=...)", grace)
    if grace_ms is None:
        history_ms = history_ms or 0
    elif history_ms is not None and history_ms < grace_ms:
        raise ConfigurationError(
            f"join() with the table {right.topic!r} got grace={grace!r} and history={history!r}: the table's rows "
            "would be gone before a row that waits meets them. Give no history=, and they are kept for as long as one "
            "may, or a longer one."
        )
    operation = StreamTableJoin(
        joined=columns,
        how="left" if how == "left" else "inner",
        history_ms=history_ms,
        grace_ms=grace_ms,
        broadcast=right.broadcast,
    )
    return Join(left, right, operation, types)


def join_with_stream(left: Stream, right: Stream, on: str, how: How, interval: tuple[int, int]) -> Join:
    """A stream's rows with those of another one that are near in time; see `Stream.join`.

    Args:
        interval: how much earlier and how much later than a left row the right one may be, in ms.

    Raises:
        ConfigurationError: they cannot be joined.
    """
    check_how(how)
    delays = (_delay_ms(left), _delay_ms(right))
    columns, types = joined_columns(left, right, on)
    operation = IntervalJoin(joined=columns, how=how, before_ms=interval[0], after_ms=interval[1], delays_ms=delays)
    return Join(left, right, operation, types)


def refuse_interval(right: Table, given: Mapping[str, str | None]) -> None:
    """Refuse an interval for a table."""
    for what, value in given.items():
        if value is not None:
            raise ConfigurationError(
                f"join() with the table {right.topic!r} got {what}={value!r}: intervals are for two streams. A row of "
                "a stream meets the table's newest one, or with history= the one of its time."
            )


def interval_of(
    within: str | None, before: str | None, after: str | None, of_tables: Mapping[str, str | None]
) -> tuple[int, int]:
    """How much earlier and how much later than a left row the right one may be, in ms; see `Stream.join`.

    Raises:
        ConfigurationError: it is not said, or in two ways.
    """
    for what, value in of_tables.items():
        if value is None:
            continue
        raise ConfigurationError(
            f"join() of two streams got {what}={value!r}: that is for tables. Say how far the rows' times may lie "
            "apart, with within=."
        )
    if within is not None and before is None and after is None:
        both = duration_ms("join(within=...)", within, zero=True)
        return both, both
    if within is not None or (before is None and after is None):
        given = f"within={within!r}, before={before!r} and after={after!r}" if within is not None else "no interval"
        raise ConfigurationError(
            f"join() of two streams got {given}: say how far the times of two rows may lie apart, with within='10 "
            "minutes', or with before= and after= how much earlier and later the right one may be."
        )
    return (
        0 if before is None else duration_ms("join(before=...)", before, zero=True),
        0 if after is None else duration_ms("join(after=...)", after, zero=True),
    )


def refuse_other_rows(first: Stream, other: Stream) -> None:
    """Refuse to unite streams whose rows differ."""
    both = f"union() of the streams of {first.topic!r} and {other.topic!r}"
    one, two = ({name.lower(): name for name in side.columns or {}} for side in (first, other))
    if one.keys() != two.keys():
        lower = sorted(one.keys() ^ two.keys())[0]
        name = {**one, **two}[lower]
        has, lacks = (first, other) if lower in one else (other, first)
        raise ConfigurationError(
            f"{both}: only that of {has.topic!r} has a column {name!r}. Give that of {lacks.topic!r} the same columns "
            f'with select(), such as "CAST(NULL AS STRING) AS {name}", of the same types.'
        )
    if first.event_time != other.event_time:
        raise ConfigurationError(
            f"{both}: their event times or watermarks differ, and what they become has one. Give both the same "
            "event_time= and watermark=."
        )


def _delay_ms(side: Stream) -> int:
    refuse_missing_time("join() of two streams", side)
    for branch in side.branches:
        if branch.event_time is None:
            raise ConfigurationError(
                f"join() of two streams needs the event times of both, and that of {branch.topic!r} has none: say "
                "stream(..., event_time='at', watermark='10 minutes'), or only watermark= for the records' timestamps."
            )
        _check_time(branch)
    assert side.event_time is not None
    return side.event_time.delay_ms


def _check_time(branch: Stream) -> None:
    columns = branch.columns
    if branch.event_time is not None and columns is not None:
        check_event_time(columns, branch.event_time.column, "stream(event_time=...)")
