"""Whether the columns that a job names exist, and have types that it can use: before Spark starts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.aggregates.aggregator import ADVICE, needed_of, suits
from airflow_provider.streaming.terms.event_time import MAKE_TIME
from airflow_provider.streaming.terms.sql_type import RECORD, SqlType, parse_schema, refuse_name_of_rows
from airflow_provider.streaming.terms.steps import JOINED_TIME, CompositeKey, Filter, LatestTime, Select, Step

STRING: Final = SqlType("STRING", "STRING")
_MADE: Final = {CompositeKey: STRING, LatestTime: SqlType("BIGINT", "BIGINT")}
"""The types of the columns that steps of the language's own add."""

BESIDE_COLUMNS: Final = (RECORD, JOINED_TIME)
"""What every row has beside its columns, or a joined one."""

_SOURCE: Final = f"{RECORD} STRUCT<topic: STRING, partition: INT, offset: BIGINT, timestamp: TIMESTAMP, key: BINARY>"
_WITHOUT_SCHEMA: Final = "key BINARY, value BINARY"

Columns = Mapping[str, SqlType | None]
"""By name, its type; None for one that Spark finds out."""


def columns_after(schema: str | Columns | None, steps: Sequence[Step]) -> Columns | None:
    """The columns that the rows of a source have after some steps, ``_source`` among them.

    Args:
        schema: of the source, in Spark DDL; None for the columns ``key`` and ``value``. Or its columns themselves.

    Returns:
        By name the types, in the order of the columns; None where the schema is left to Spark.
    """
    parsed = schema if isinstance(schema, Mapping) else parse_schema(f"{schema or _WITHOUT_SCHEMA}, {_SOURCE}")
    if parsed is None:
        return None
    columns: Columns = dict(parsed)
    for step in steps:
        if isinstance(step, Select):
            columns = _selected(step, columns)
        elif not isinstance(step, Filter):
            columns = {name: kind for name, kind in columns.items() if name.lower() != step.name.lower()}
            columns = {**columns, step.name: _MADE.get(type(step))}
    return columns


def written_columns(where: str, schema: str | Columns | None, steps: Sequence[Step]) -> tuple[str, ...]:
    """All columns that the rows have after some steps, for what writes them as they are.

    Raises:
        ConfigurationError: they are known to Spark alone.
    """
    columns = columns_after(schema, steps)
    if columns is None:
        raise ConfigurationError(
            f"{where} writes all columns, and their schema {schema!r} is not understood here: name them with select() "
            "first."
        )
    return tuple(name for name in columns if name not in BESIDE_COLUMNS)


def check_event_time(columns: Columns, column: str, where: str) -> None:
    """Refuse a column of event times that there is not, or that holds no time."""
    kind = find_column(where, column, columns, "; where a select() has left it out, keep it there")
    if kind is not None and kind.name not in ("TIMESTAMP", "BIGINT") and list(kind.fields) != ["start", "end"]:
        raise ConfigurationError(
            f"{where} names the column {column!r} of type {kind.text}: an event time is a TIMESTAMP, milliseconds "
            f"since 1970 as a BIGINT, or a window. {MAKE_TIME}"
        )


def check_time_put_out(column: str, key: Sequence[str], schemas: Sequence[str | None]) -> None:
    """Refuse an event time of `process()` that no schema of what it puts out has, or that is none in one of them."""
    timed = [columns for schema in schemas if schema and column in (columns := columns_after(schema, ()) or {})]
    if column in key:
        raise ConfigurationError(
            f"process() got event_time={column!r}, which is the key's column, and so a text: give the time another."
        )
    if not timed:
        raise ConfigurationError(
            f"process() got event_time={column!r}, and no schema has that column: name it in schema= or outputs=, such "
            f'as schema="{column} BIGINT".'
        )
    for columns in timed:
        check_event_time(columns, column, "process(event_time=...)")


def check_grouping(columns: Columns, key: str, method: str = "group_by()") -> None:
    """Refuse a column of `group_by()` that there is not, or that has no text of its own."""
    kind = find_column(method, key, columns)
    if kind is not None and not kind.is_ordered and kind.name != "BINARY":
        raise ConfigurationError(
            f"{method} names the column {key!r} of type {kind.text}, which has no text of its own: name one of its "
            "fields, or a column that with_column() makes of it, such as to_json(...)."
        )


def check_aggregate(aggregate: Aggregate, key: Sequence[str], columns: Columns) -> None:
    """Refuse an aggregate of a column that there is not, or cannot be kept, or whose result has the name of a key."""
    if aggregate.name in key:
        raise ConfigurationError(
            f"aggregate() names a result {aggregate.name!r}, as the key column of group_by(): the output would have "
            "two fields of one name. Name it otherwise with alias()."
        )
    refuse_name_of_rows("aggregate() names a result", aggregate.name, "Name it otherwise with alias().")
    function, own = aggregate.function, aggregate.aggregator
    taken = own.taken if own is not None else ("number" if function.adds else "ordered",)
    for at, column in enumerate((aggregate.column,) if own is None else aggregate.columns):
        kind = None if column is None else find_column(f"aggregate(), in {aggregate.name!r},", column, columns)
        needed = "any" if function is Function.COUNT else needed_of(taken, at)
        if kind is None or suits(needed, ordered=kind.is_ordered, number=kind.is_number):
            continue
        raise ConfigurationError(
            f"{aggregate.name!r} cannot be kept: {aggregate.function_name} of column {column!r} of type {kind.text}. "
            f"{ADVICE[needed]}"
        )


def check_process_columns(columns: Columns, names: Sequence[str]) -> None:
    """Refuse columns of `process()` that there are not, or that Python cannot hold."""
    for name in names:
        kind = find_column("process()", name, columns)
        if kind is not None and not kind.is_readable:
            raise ConfigurationError(
                f"process() names the column {name!r} of type {kind.text}, which Python cannot hold: cast it to STRING "
                "with with_column()."
            )


def _selected(step: Select, columns: Columns) -> Columns:
    """Those that a `select()` gives; the record's own column stays."""
    given: dict[str, SqlType | None] = {}
    by_name = {name.lower(): kind for name, kind in columns.items()}
    for column in step.columns:
        if not column.names:
            given |= {name: kind for name, kind in columns.items() if name not in BESIDE_COLUMNS}
        for name in column.names:
            given[name] = None if column.generator else by_name.get(column.expression.strip("`").lower())
    return {**given, **{name: kind for name, kind in columns.items() if name in BESIDE_COLUMNS}}


def find_column(where: str, name: str, columns: Columns, advice: str = "") -> SqlType | None:
    """The type of a column as Spark finds it (any case, by its path in a struct); None for one that only Spark knows.

    Raises:
        ConfigurationError: there is no such column.
    """
    path = [name.strip("`")] if name.strip("`").lower() in map(str.lower, columns) else name.split(".")
    level: Columns = columns
    kind: SqlType | None = None
    for at, step in enumerate(path):
        by_name = {column.lower(): known for column, known in level.items()}
        step_name = step.strip("`").lower()
        if step_name not in by_name:
            raise ConfigurationError(_missing(where, name, path[:at], step.strip("`"), level, advice))
        kind = by_name[step_name]
        if kind is None:
            return None
        if kind.name != "STRUCT" and at + 1 < len(path):
            return None  # Spark may know more, such as a field of every element of an array
        level = kind.fields
    return kind


def _written(path: Sequence[str]) -> str:
    """A path as SQL has it."""
    return repr(".".join(f"`{name}`" if "." in name else name for name in path))


def _missing(where: str, name: str, outer: Sequence[str], step: str, level: Columns, advice: str) -> str:
    known = {column.lower(): column for column in level}
    close = difflib.get_close_matches(step.lower(), known, n=1)
    hint = f": did you mean {_written([*outer, known[close[0]]])}?" if close else f"{advice}."
    there = ", ".join(repr(column) for column in level if column not in BESIDE_COLUMNS)
    return f"{where} names the column {name!r}, which does not exist{hint} There are {there}."
