"""Two streams or tables that are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final, get_args

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name
from airflow_provider.streaming.joins.join_operation import JoinOperation
from airflow_provider.streaming.joins.join_rows import How, JoinedColumns
from airflow_provider.streaming.language.column_check import Columns, check_grouping, find_column
from airflow_provider.streaming.terms.argument_check import check_kind, check_number
from airflow_provider.streaming.terms.sql_type import RECORD, SqlType

if TYPE_CHECKING:
    from airflow_provider.streaming.language.stream import Stream
    from airflow_provider.streaming.language.table import Table

_HOWS: Final = get_args(How)


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


def joined_columns(left: Stream | Table, right: Stream | Table, on: object) -> tuple[JoinedColumns, Columns]:
    """The columns of a join's rows: that of the key, the left side's and the right side's.

    Raises:
        ConfigurationError: a side lacks it, it has another type there or none that can be a key; another column is in
            both; a side's columns are known to Spark alone; or a side has an idle timeout.
    """
    if not isinstance(on, str):
        raise ConfigurationError(
            f"join() got on={on!r}: give the name of one column that both sides have. Make it of several, or under "
            "another name, with with_column() first."
        )
    sides, kinds = [], list[SqlType | None]()
    for side in (left, right):
        columns, time = side.columns, side.event_time
        if time is not None and time.idle_ms is not None:
            raise ConfigurationError(
                f"join() got rows of {side.topic!r} with an idle_timeout, and they go through an internal topic, "
                "behind which nobody knows whether nothing comes or the stage before it is behind: leave it out."
            )
        if columns is None:
            raise ConfigurationError(
                f"join() writes the columns of {side.topic!r}, and their schema {side.schema!r} is not understood "
                "here: name them with select() first."
            )
        check_grouping(columns, on, f"join(), of {side.topic!r},")
        kinds.append(find_column(f"join(), of {side.topic!r},", on, columns))
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
