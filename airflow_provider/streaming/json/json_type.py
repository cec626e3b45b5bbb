"""Types whose values come back from a JSON text as they were."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from airflow_provider.streaming.json.type_name import type_name

__all__ = ["json_schema", "json_type", "without_json_type"]

_NAMES: Final = {
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
}
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def json_type(kind: pa.DataType) -> str | None:
    """A type's name in Spark DDL; None for one whose values `json_rows` does not write so that they can be read again.

    Args:
        kind: of a column, in Arrow's words.
    """
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP_NTZ" if kind.tz is None else "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _NAMES.get(kind)


def without_json_type(schema: pa.Schema | None, columns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of some columns that `json_type` has no name for, each with the name of its type.

    Args:
        schema: of the rows; None while the types are not known, which are not judged then.
        columns: some of them.
    """
    if schema is None:
        return
    for name in columns:
        kind = schema.field(name).type
        if json_type(kind) is None:
            yield name, type_name(kind)


def json_schema(columns: pa.Schema) -> str:
    """The schema of JSON objects with these columns, in Spark DDL.

    Args:
        columns: of types that `json_type` has a name for.
    """
    return ", ".join(f"{_quoted(field.name)} {json_type(field.type)}" for field in columns)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"
