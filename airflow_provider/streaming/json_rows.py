"""JSON objects from Arrow columns, many at once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["json_rows"]

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def json_rows(fields: Sequence[tuple[str, pa.Array]]) -> list[bytes]:
    """One UTF-8 JSON object a row, with a field a column.

    Numbers are written so that they read back the same; a NaN or an infinity is written as a text, as Spark's
    ``to_json`` does; timestamps and dates as ISO 8601.

    Args:
        fields: names and columns of equal length.
    """
    pieces: list[pa.Array | pa.Scalar] = []
    for number, (name, column) in enumerate(fields):
        pieces.append(pa.scalar(("{" if number == 0 else ",") + json.dumps(name) + ":", pa.string()))
        pieces.append(pc.fill_null(_texts(column), "null"))
    pieces.append(pa.scalar("}", pa.string()))
    joined: pa.Array = pc.binary_join_element_wise(*pieces, pa.scalar("", pa.string()))
    rows: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return rows


def _texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        texts = column.cast(pa.string())
        strange = pc.invert(pc.is_finite(column))
        if pc.any(strange).as_py():
            named = pc.if_else(
                pc.is_nan(column), '"NaN"', pc.if_else(pc.greater(column, 0.0), '"Infinity"', '"-Infinity"')
            )
            texts = pc.if_else(strange, named, texts)
        return texts
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    texts = column.cast(pa.string())
    if pa.types.is_timestamp(kind):
        texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    if pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return pa.array(
            [None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()], pa.string()
        )
    return pc.binary_join_element_wise('"', texts, '"', "")
