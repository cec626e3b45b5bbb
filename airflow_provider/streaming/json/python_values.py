"""Results of aggregates as Python's values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.json.json_rows import iso_times


def python_values(column: pa.Array) -> list[Any]:
    """With the types that the rows of ``process()`` have: a DECIMAL is a ``Decimal``, a DATE a ``date``.

    A FLOAT is the number with its own digits. A date or timestamp that Python cannot hold, such as one after the year
    9999, is its text. Of a struct each field is such a value, so a window may begin with a text and end with a time.

    Args:
        column: plain values, or structs of them.
    """
    if pa.types.is_struct(column.type):
        fields = {field.name: python_values(pc.struct_field(column, field.name)) for field in column.type}
        rows = zip(column.is_valid().to_pylist(), *fields.values(), strict=True)
        return [dict(zip(fields, values, strict=True)) if there else None for there, *values in rows]
    if pa.types.is_float32(column.type):
        return [None if text is None else float(text) for text in column.cast(pa.string()).to_pylist()]
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        values = [_value_or_text(column.slice(at, 1)) for at in range(len(column))]
    return values


def _value_or_text(one: pa.Array) -> Any:
    try:
        return one[0].as_py()
    except (ValueError, OverflowError):
        return iso_times(one)[0].as_py()
