"""The name of a type in a signature, which lives longer than Arrow's and Spark's own words for it."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["type_name"]


def type_name(kind: pa.DataType) -> str:
    """In Spark's words; integers of any size are one, because they are kept and written alike.

    Args:
        kind: of a column, in Arrow's words.
    """
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
