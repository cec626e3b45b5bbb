"""Two streams or tables that are joined or united, checked where it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final, get_args

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name
from airflow_provider.streaming.joins.join_foreign_key import ForeignAnswers, ForeignChanges, ForeignJoin
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_operation import JoinOperation
from airflow_provider.streaming.joins.join_rows import How, JoinedColumns
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.language.column_check import (
    Columns,
    check_event_time,
    check_grouping,
    find_column,
)
from airflow_provider.streaming.language.result import KeptTable
from airflow_provider.streaming.terms.argument_check import check_kind, check_number, duration_ms
from airflow_provider.streaming.terms.event_time import EventTime
from airflow_provider.streaming.terms.sql_type import RECORD, SqlType
from airflow_provider.streaming.terms.steps import JOINED_TIME, LatestTime, Step

if TYPE_CHECKING:
    from airflow_provider.streaming.language.stream import Stream
    from airflow_provider.streaming.language.table import Table

_HOWS: Final = get_args(How)
_SAME_MOMENT_MS: Final = 1
"""A watermark says that nothing earlier comes; of its own millisecond there may be more."""


@dataclass(frozen=True)
class Join:
    """Rows of two sides, brought together by one column; `Stream.join` and `Table.join` make it.

    Args:
        name: of the store and of the internal topic; None for one that follows from where the rows go.
        partitions: of the internal topic; None for as many as the left side's topic has.
    """

    left: Stream | Table
    right: Stream | Table
    operation: JoinOperation
    columns: Columns
    _: KW_ONLY
    name: str | None = None
    partitions: int | None = None

    @property
    def on(self) -> str:
        """The column that both sides have."""
        return self.operation.joined.on

    @property
    def how(self) -> How:
        """Which rows without a partner come out."""
        return self.operation.how

    @property
    def text(self) -> str:
        """What it is, for messages."""
        return f"{self.left.topic} joined with {self.right.topic}"


@dataclass(frozen=True)
class ForeignKeyJoin(Join):
    """Rows of two tables, the left one's with those that a column of theirs names; `Table.join` makes it.

    Args:
        changes: the left table's rows, on their way to those of the right one.
        answers: what is done with what comes of them.
    """

    _: KW_ONLY
    changes: KeptTable
    answers: ForeignAnswers


def check_joined_on(on: object) -> str:
    """Refuse what names no column."""
    if not isinstance(on, str):
        raise ConfigurationError(
            f"join() got on={on!r}: give the name of one column that both sides have. Make it of several, or under "
            "another name, with with_column() first."
        )
    return on


def joined_columns(left: Stream | Table, right: Stream | Table, on: object) -> tuple[JoinedColumns, Columns]:
    """The columns of a join's rows: that of the key, the left side's and the right side's.

    Raises:
        ConfigurationError: a side lacks it, it has another type there or none that can be a key; another column is in
            both; or a side's columns are known to Spark alone.
    """
    on = check_joined_on(on)
    sides, kinds = [], list[SqlType | None]()
    for side in (left, right):
        columns = side.columns
        if columns is None:
            raise ConfigurationError(
                f"join() writes the columns of {side.topic!r}, and their schema {side.schema!r} is not understood "
                "here: name them with select() first."
            )
        where = f"join(), of {side.topic!r},"
        kinds.append(find_column(where, on, columns, f"; both sides need it, as select() gives it with AS {on}"))
        check_grouping(columns, on, where)
        # The time of what is joined already goes on with its rows.
        others = {name: kind for name, kind in columns.items() if name != RECORD and name.lower() != on.lower()}
        sides.append(others)
    if None not in kinds and (texts := [_comparable(kind) for kind in kinds])[0] != texts[1]:
        raise ConfigurationError(
            f"join() compares the column {on!r} of type {texts[0]} of {left.topic!r} with one of type {texts[1]} of "
            f"{right.topic!r}: cast one of them with with_column(), so that equal keys have one text."
        )
    known = {name.lower() for name in sides[0]}
    if both := [name for name in sides[1] if name.lower() in known]:
        raise ConfigurationError(
            f"join() gives two columns the name {both[0]!r}, because {left.topic!r} and {right.topic!r} have it both: "
            f'give one of them another name before, such as select("{on}", "{both[0]} AS other_{both[0]}").'
        )
    record = (left.columns or {})[RECORD]
    kind = kinds[0] if kinds[0] is not None else kinds[1]
    return (
        JoinedColumns(on, tuple(sides[0]), tuple(sides[1])),
        {on: kind, **sides[0], **sides[1], RECORD: record},
    )


def check_how(how: object, choices: Sequence[str] = _HOWS, why: str = "") -> None:
    """Refuse a kind of join that there is not."""
    if how not in choices:
        raise ConfigurationError(f"join() got how={how!r}: choose one of {', '.join(map(repr, choices))}{why}.")


def check_join_names(name: object, partitions: object) -> None:
    """Refuse what cannot name a store, and what is no number of partitions."""
    if name is not None:
        check_kind("join() got name=", name, str, 'one text, such as name="enriched"')
        check_name("join() name", str(name))
    check_number("join() got partitions", partitions, "partitions", whole=True, none="those of the left side")


def _comparable(kind: SqlType | None) -> str:
    assert kind is not None
    return "an integer" if kind.name in ("TINYINT", "SMALLINT", "INT", "BIGINT") else kind.text.upper()


def join_with_table(
    left: Stream, right: Table, on: str, how: How, history: str | None, grace: str | None = None
) -> Join:
    """A stream's rows with those of a table; see `Stream.join`.

    Raises:
        ConfigurationError: they cannot be joined.
    """
    check_how(how, ("inner", "left"), ": a table's rows do not come by themselves when a stream is joined with it")
    refuse_key_of_several(right, on)
    columns, types = joined_columns(left, right, on)
    check_table_key(right, on)
    for branch in left.branches:
        check_stream_time(branch)
    history_ms = None if history is None else duration_ms("join(history=...)", history, zero=True)
    grace_ms = None if grace is None else duration_ms("join(grace=...)", grace)
    if right.watermarked:
        for what, given in (("history", history), ("grace", grace)):
            if given is not None:
                raise ConfigurationError(
                    f"join() with the table {right.topic!r} got {what}={given!r}: the table has a watermark, so a row "
                    f"of the stream waits for the table's of its time, and those are kept until then. Leave {what}= "
                    "out, and say with the table's watermark= for how long its rows are waited for."
                )
        grace_ms = _SAME_MOMENT_MS
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
        waits_for_table=right.watermarked,
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


def join_on_foreign_key(
    left: Table, right: Table, on: str, how: How, name: str | None, partitions: int | None
) -> ForeignKeyJoin:
    """A table's rows with those of another one that they name by its key; see `Table.join`.

    Raises:
        ConfigurationError: they cannot be joined.
    """
    check_how(how, ("inner", "left"), ": a row of the right table that no row names has no key in the result")
    joined, columns = joined_columns(left, right, on)
    if left.key not in joined.left:
        raise ConfigurationError(
            f"join(on={on!r}) of the table {left.topic!r} needs its key in a column, under which the rows come out, "
            f"and {left.key!r} is none: make it a table with one, by group_by() of one column."
        )
    changes = ForeignChanges(columns=(on, *joined.left), time=left.time, on=on, how=how)
    return ForeignKeyJoin(
        left,
        right,
        ForeignJoin(joined=joined, how=how, left_key=left.key),
        columns,
        name=name,
        partitions=partitions,
        changes=KeptTable(left, changes, left.columns or {}, partitions=partitions),
        answers=ForeignAnswers(columns=joined.names),
    )


def joined_time(
    join: Join, left: Stream, right: Stream, named: str | None
) -> tuple[EventTime | None, tuple[Step, ...]]:
    """The event time of the rows of two streams: a column of theirs, or the later of their times, which a step adds.

    Returns:
        None, where that of a side is the record's own, which is none of the columns.

    Raises:
        ConfigurationError: there is no such column, or it holds no time.
    """
    times = [side.event_time for side in (left, right)]
    columns = tuple(time.column for time in times if time is not None and not time.of_record)
    delay_ms = join.operation.delay_ms
    if named is not None:
        check_kind("join() got event_time=", named, str, "the name of a column")
        check_event_time(join.columns, named, "join(event_time=...)")
        return EventTime(named, delay_ms), ()
    if len(columns) < len(times):
        return None, ()
    return EventTime(JOINED_TIME, delay_ms), (LatestTime(columns),)


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
        check_stream_time(branch)
    assert side.event_time is not None
    return side.event_time.delay_ms


def check_stream_time(branch: Stream) -> None:
    """Refuse an event time that is none after a stream's steps."""
    columns = branch.columns
    if branch.event_time is not None and columns is not None:
        check_event_time(columns, branch.event_time.column, "stream(event_time=...)")


def refuse_key_of_several(side: Table, on: str) -> None:
    """Refuse to join a table whose key is made of several columns."""
    if "," in side.key:
        parts = side.key.split(",")
        raise ConfigurationError(
            f"join() got on={on!r}, and the key of {side.topic} is made of {' and '.join(parts)}: a table is joined on "
            f"its whole key. Make one column of them before group_by(), as with_column('pair', \"concat_ws('|', "
            f"{', '.join(parts)})\"), and of the other side's, and join on that."
        )


def check_table_key(side: Table, on: str) -> None:
    """Refuse to join a table on another column than its key, under which its rows and deletions come."""
    if side.key.lower() != on.lower():
        raise ConfigurationError(
            f"join() got on={on!r}, and the key of the table {side.topic!r} is {side.key!r}: a table is joined on its "
            "key. Give the other side's column that name with with_column(), or let the table's producer use that key."
        )


def refuse_missing_time(method: str, stream: Stream) -> None:
    """Refuse to ask for an event time behind a join of two streams, with what to do instead.

    Other streams without one pass: what needs it says how to name it.
    """
    for branch in stream.branches:
        if branch.event_time is None and _is_of_two_streams(branch.origin):
            raise ConfigurationError(
                f"{method} needs an event time, and what is joined has none ({branch.topic}): that of a side is "
                "its records' timestamp, which is none of the columns: name a column with stream(event_time=...), or "
                "say which of the joined columns it is with join(event_time=...)."
            )


def _is_of_two_streams(origin: object) -> bool:
    if not isinstance(origin, Join):
        return False
    if isinstance(origin.operation, IntervalJoin):
        return True
    return any(_is_of_two_streams(branch.origin) for branch in origin.left.branches)
