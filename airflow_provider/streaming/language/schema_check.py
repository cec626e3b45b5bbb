"""Whether a schema has each column once, and of types that Spark has: before Spark starts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.terms.sql_type import SqlType, columns_of

TYPES: Final = (
    "ARRAY", "BIGINT", "BINARY", "BOOLEAN", "BYTE", "CHAR", "CHARACTER", "DATE", "DEC", "DECIMAL", "DOUBLE", "FLOAT",
    "GEOGRAPHY", "GEOMETRY", "INT", "INTEGER", "INTERVAL", "LONG", "MAP", "NUMERIC", "REAL", "SHORT", "SMALLINT",
    "STRING", "STRUCT", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TINYINT", "VARCHAR", "VARIANT", "VOID",
)  # fmt: skip
"""What Spark's DDL calls its types."""

_USUAL: Final = (
    "STRING, BIGINT, INT, DOUBLE, DECIMAL(p, s), BOOLEAN, DATE, TIMESTAMP, ARRAY<...>, MAP<...>, STRUCT<...>"
)
_ELSEWHERE: Final = {"STR": "STRING", "TEXT": "STRING", "DATETIME": "TIMESTAMP", "LIST": "ARRAY", "DICT": "MAP"}
"""Names of other languages that are not spelt like Spark's."""

_RECORD: Final = "_source"


def check_schema(schema: str | None, where: str) -> None:
    """Refuse what Spark would refuse with a page of its own, or only when a row arrives.

    A schema that is not understood is left to Spark.

    Args:
        schema: of the source's values, in Spark DDL; None for values that stay as they are.
        where: what was given it, for the error.

    Raises:
        ConfigurationError: a column stands there twice, also in another case, or has the name of the record's own
            column, or is of a type that Spark does not have.
    """
    before: dict[str, str] = {}
    for name, kind in columns_of(schema or "") or ():
        other = before.get(name.lower())
        if other is not None:
            twice = f"{name!r} twice" if other == name else f"{other!r} and {name!r}, which are one column to Spark"
            raise ConfigurationError(f"{where} got a schema with the column {twice}: keep one of the two.")
        before[name.lower()] = name
        if name.lower() == _RECORD:
            raise ConfigurationError(
                f"{where} got a schema with the column {name!r}, which every row has already: it holds the record's "
                "topic, partition, offset, timestamp and key. Rename the field where it is produced, or leave it out."
            )
        for path, unknown in _unknown(name, kind):
            raise ConfigurationError(
                f"{where} got a schema whose column {path!r} is of type {unknown}, which Spark does not have: "
                f"{_hint(unknown)}"
            )


def _unknown(path: str, kind: SqlType) -> Iterator[tuple[str, str]]:
    """Each type in a column that Spark does not have, with the path to it."""
    if kind.name not in TYPES:
        yield path, kind.name
    for name, inner in kind.fields.items():
        yield from _unknown(f"{path}.{name}", inner)
    for inner in kind.elements:
        yield from _unknown(path, inner)


def _hint(unknown: str) -> str:
    close = [_ELSEWHERE[unknown]] if unknown in _ELSEWHERE else difflib.get_close_matches(unknown, TYPES, n=1)
    return f"did you mean {close[0]}?" if close else f"use one of {_USUAL}."
