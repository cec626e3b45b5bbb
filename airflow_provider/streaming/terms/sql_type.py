"""The column types of a schema in Spark DDL, as far as a job is checked before Spark runs.

A schema has to have each column once, and types that Spark has.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.terms.steps import PASSED

_ALIASES: Final = {
    "BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT", "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL", "VARCHAR": "STRING", "CHAR": "STRING", "CHARACTER": "STRING", "TIMESTAMP_LTZ": "TIMESTAMP",
}  # fmt: skip
_NUMBERS: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
_ORDERED: Final = _NUMBERS | {"STRING", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
_NESTED: Final = frozenset({"ARRAY", "MAP", "STRUCT"})
_OPENING, _CLOSING = "(<", ")>"
_COLUMN: Final = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`\s*:?\s*|([A-Za-z0-9_]+)(?:\s*:\s*|\s+))([A-Za-z_]\w*)\s*(.*)", re.DOTALL
)
_TYPE: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class SqlType:
    """A column's type.

    Args:
        name: Spark's, in upper case, without parameters, such as ``DECIMAL``.
        text: as the schema has it.
        fields: of a STRUCT, by name; empty otherwise.
        elements: what an ARRAY or a MAP holds; empty otherwise.
        behind: what stands behind it, such as ``NOT NULL``.
    """

    name: str
    text: str
    fields: Mapping[str, SqlType] = field(default_factory=dict)
    elements: tuple[SqlType, ...] = ()
    behind: str = ""

    @property
    def is_number(self) -> bool:
        """Whether its values can be added up."""
        return self.name in _NUMBERS

    @property
    def is_ordered(self) -> bool:
        """Whether it is a plain value with an order: what min, max, first and last keep, and what can be a key."""
        return self.name in _ORDERED

    @property
    def is_readable(self) -> bool:
        """Whether Python has its values."""
        return self.is_ordered or self.name == "BINARY" or self.name in _NESTED


def parse_schema(schema: str) -> dict[str, SqlType] | None:
    """The columns of a schema by name; None for one that is not understood here: Spark knows more."""
    columns = columns_of(schema)
    return None if columns is None else dict(columns)


def columns_of(schema: str) -> tuple[tuple[str, SqlType], ...] | None:
    """The columns of a schema as they are written, a repeated one too; None as in `parse_schema`."""
    found = [_COLUMN.fullmatch(part) for part in parts_of(schema)]
    columns = tuple(
        ((column[1] or column[2]).replace("``", "`"), _type(column[3].upper(), column[4])) for column in found if column
    )
    return columns if len(columns) == len(found) else None


def _type(name: str, rest: str) -> SqlType:
    name = _ALIASES.get(name, name)
    parameters, behind = "", rest
    if rest and rest[0] in _OPENING:
        end = next((at for at, depth in _depths(rest) if depth == 0), len(rest) - 1)
        parameters, behind = rest[: end + 1], rest[end + 1 :]
    fields = parse_schema(parameters[1:-1]) if name == "STRUCT" and parameters else None
    held = [_TYPE.fullmatch(part) for part in parts_of(parameters[1:-1])] if name in ("ARRAY", "MAP") else []
    elements = tuple(_type(part[1].upper(), part[2]) for part in held if part)
    return SqlType(name, name + parameters, fields or {}, elements, behind.strip())


def parts_of(schema: str) -> list[str]:
    """What commas part that stand in no brackets and no quotes."""
    parts, begin = [], 0
    for at, depth in _depths(schema):
        if schema[at] == "," and depth == 0:
            parts.append(schema[begin:at])
            begin = at + 1
    return [*parts, schema[begin:]]


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Each index outside of quotes, with how many brackets are open after it."""
    depth, quote = 0, ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
            continue
        if character in "`'\"":
            quote = character
        depth += (character in _OPENING) - (character in _CLOSING)
        yield at, depth


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

RECORD: Final = "_source"
"""The column with the record's own topic, partition, offset, timestamp and key."""

_OF_ROWS: Final = {
    RECORD: "the record's topic, partition, offset, timestamp and key",
    PASSED: "how far time was where the row came from",
}
"""By a name that no column of the user's can have, what rows hold there for themselves."""


def refuse_name_of_rows(where: str, name: str, instead: str) -> None:
    """Refuse a name that rows have for themselves.

    Args:
        where: what names it, with a verb.
        instead: what to do.
    """
    if (held := _OF_ROWS.get(name.lower())) is not None:
        raise ConfigurationError(f"{where} {name!r}, which every row has already: it holds {held}. {instead}")


def check_schema(schema: str | None, where: str) -> None:
    """Refuse what Spark would refuse with a page of its own, or only when a row arrives.

    A schema that is not understood is left to Spark.

    Raises:
        ConfigurationError: a column stands there twice, also in another case, or has the name of the record's own
            column, or is of a type that Spark does not have.
    """
    if schema and [depth for _, depth in _depths(schema)][-1] > 0:
        raise ConfigurationError(f"{where} got the schema {schema!r}, in which a bracket is not closed.")
    before: dict[str, str] = {}
    for name, kind in columns_of(schema or "") or ():
        other = before.get(name.lower())
        if other is not None:
            twice = f"{name!r} twice" if other == name else f"{other!r} and {name!r}, which are one column to Spark"
            raise ConfigurationError(f"{where} got a schema with the column {twice}: keep one of the two.")
        before[name.lower()] = name
        instead = "Rename the field where it is produced, or leave it out."
        refuse_name_of_rows(f"{where} got a schema with the column", name, instead)
        for path, inner in _inside(name, kind):
            further = _COLUMN.fullmatch(inner.behind)
            if further is not None and further[3].upper() in TYPES:
                raise ConfigurationError(
                    f"{where} got a schema whose column {path!r} is {inner.text}, and behind that stands "
                    f"{inner.behind!r}: is a comma missing?"
                )
            if inner.name not in TYPES:
                raise ConfigurationError(
                    f"{where} got a schema whose column {path!r} is of type {inner.name}, which Spark does not have: "
                    f"{_hint(inner.name)}"
                )


def _inside(path: str, kind: SqlType) -> Iterator[tuple[str, SqlType]]:
    """A type and all that it is made of, each with the path to it."""
    yield path, kind
    for name, inner in kind.fields.items():
        yield from _inside(f"{path}.{name}", inner)
    for inner in kind.elements:
        yield from _inside(path, inner)


def _hint(unknown: str) -> str:
    close = [_ELSEWHERE[unknown]] if unknown in _ELSEWHERE else difflib.get_close_matches(unknown, TYPES, n=1)
    return f"did you mean {close[0]}?" if close else f"use one of {_USUAL}."
