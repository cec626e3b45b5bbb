"""The name of a type in a signature, which lives longer than Arrow's and Spark's own words for it."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

__all__ = ["type_name", "type_names"]


def type_name(kind: pa.DataType | None) -> str:
    """In Spark's words; integers of any size are one, because they are kept and written alike.

    Args:
        kind: of a column, in Arrow's words; None, while it is not known, has no name.
    """
    if kind is None:
        return ""
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_timestamp(kind):
        # The zone is the session's, and says nothing about the point in time.
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        return "string"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    names = {
        pa.bool_(): "boolean",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.date32(): "date",
        pa.binary(): "binary",
    }
    return names.get(kind, str(kind))


def type_names(schema: pa.Schema | None, columns: Iterable[str]) -> dict[str, str]:
    """The types of some columns by name; none while the types are not known."""
    return {} if schema is None else {name: type_name(schema.field(name).type) for name in columns}
