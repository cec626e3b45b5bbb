"""The column types of a schema in Spark DDL, as far as a job is checked before Spark runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

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
    """

    name: str
    text: str
    fields: Mapping[str, SqlType] = field(default_factory=dict)
    elements: tuple[SqlType, ...] = ()

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
    found = [_COLUMN.fullmatch(part) for part in _parts(schema)]
    columns = tuple(
        ((column[1] or column[2]).replace("``", "`"), _type(column[3].upper(), column[4])) for column in found if column
    )
    return columns if len(columns) == len(found) else None


def _type(name: str, rest: str) -> SqlType:
    name = _ALIASES.get(name, name)
    parameters = ""
    if rest and rest[0] in _OPENING:
        end = next((at for at, depth in _depths(rest) if depth == 0), len(rest) - 1)
        parameters = rest[: end + 1]
    fields = parse_schema(parameters[1:-1]) if name == "STRUCT" and parameters else None
    held = [_TYPE.fullmatch(part) for part in _parts(parameters[1:-1])] if name in ("ARRAY", "MAP") else []
    elements = tuple(_type(part[1].upper(), part[2]) for part in held if part)
    return SqlType(name, name + parameters, fields or {}, elements)


def _parts(schema: str) -> list[str]:
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
