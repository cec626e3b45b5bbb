"""Results of aggregates as Python's values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from airflow_provider.streaming.operations.json_rows import iso_times

__all__ = ["python_values"]


def python_values(column: pa.Array) -> list[Any]:
    """With the types that the rows of ``process()`` have: a DECIMAL is a ``Decimal``, a DATE a ``date``.

    A FLOAT is the number with its own digits. A date or timestamp that Python cannot hold, such as one after the year
    9999, is its text.

    Args:
        column: plain values.
    """
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
