"""JSON objects, and Python's values, from Arrow columns, many at once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'
_WITHOUT_EXPONENT: Final = range(7)
_FIRST_DAY: Final = -719_528
"""The first of the year 0, in days since 1970."""
_END_DAY: Final = 2_932_897
"""The first of the year 10000."""
_CYCLE_DAYS: Final = 146_097
"""Of 400 years: then the Gregorian calendar repeats itself."""
_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def json_rows(fields: Sequence[tuple[str, pa.Array]]) -> list[bytes]:
    """One UTF-8 JSON object per row, with a field per column.

    Numbers are written so that they read back the same; a NaN or an infinity is written as a text, as Spark's
    ``to_json`` does; timestamps and dates as ISO 8601, years outside 0 to 9999 with a sign, such as ``+10000-01-01``;
    a list as an array, a struct as an object.
    """
    joined: pa.Array = _joined([pa.scalar("{", pa.string()), *_members(fields), pa.scalar("}", pa.string())])
    rows: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return rows


def json_members(fields: Sequence[tuple[str, pa.Array]]) -> pa.Array:
    """The same without the braces around them, as one column of texts."""
    return _joined(_members(fields))


def _members(fields: Sequence[tuple[str, pa.Array]]) -> list[pa.Array | pa.Scalar]:
    pieces: list[pa.Array | pa.Scalar] = []
    for number, (name, column) in enumerate(fields):
        pieces.append(pa.scalar(("," if number else "") + json.dumps(name) + ":", pa.string()))
        pieces.append(pc.fill_null(_texts(column), "null"))
    return pieces


def _joined(pieces: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, pa.scalar("", pa.string()))


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
    if pa.types.is_dictionary(kind):  # few values in many rows: each is written once
        return _texts(column.dictionary).take(column.indices)
    if pa.types.is_struct(kind):
        fields = [(kind.field(at).name, column.field(at)) for at in range(kind.num_fields)]
        objects = pa.array(json_rows(fields), pa.binary()).cast(pa.string())
        return pc.if_else(column.is_valid(), objects, None) if column.null_count else objects
    if pa.types.is_list(kind):
        elements = pc.fill_null(_texts(column.flatten()), "null").to_pylist()
        return pa.array([None if at is None else f"[{','.join(elements[at])}]" for at in _slices(column)], pa.string())
    if pa.types.is_decimal(kind):
        return plain_decimals(column)
    texts = iso_times(column) if pa.types.is_date32(kind) or pa.types.is_timestamp(kind) else column.cast(pa.string())
    if pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return pa.array(
            [None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()], pa.string()
        )
    return pc.binary_join_element_wise('"', texts, '"', "")


def _slices(column: pa.Array) -> list[slice | None]:
    """Where the elements of each list are among those of all; None of a null."""
    ends = list(itertools.accumulate(pc.fill_null(pc.list_value_length(column), 0).to_pylist(), initial=0))
    found = map(slice, ends, ends[1:])
    return [at if valid else None for at, valid in zip(found, column.is_valid().to_pylist(), strict=True)]


def plain_decimals(column: pa.Array) -> pa.Array:
    """Decimals as texts, never with an exponent, which Arrow writes where there are many digits behind the point."""
    if column.type.scale in _WITHOUT_EXPONENT:
        return column.cast(pa.string())
    return pa.array([None if value is None else format(value, "f") for value in column.to_pylist()], pa.string())


def iso_times(column: pa.Array) -> pa.Array:
    """Dates or timestamps as texts in ISO 8601, years outside 0 to 9999 with a sign, which Arrow writes wrongly."""
    kind = column.type
    day = _DAY[kind.unit] if pa.types.is_timestamp(kind) else 1
    # Nanoseconds do not reach so far.
    first, end = max(_FIRST_DAY * day, -(2**63)), min(_END_DAY * day, 2**63 - 1)
    number = column.cast(_number_type(kind)).cast(pa.int64())
    far = pc.fill_null(pc.invert(pc.and_(pc.greater_equal(number, first), pc.less(number, end))), False)
    if not pc.any(far).as_py():
        return _iso(column)
    texts = _iso(pc.if_else(far, pa.scalar(None, kind), column))
    # As many cycles nearer to 1970, where only the year is another.
    cycles, rests = zip(*(divmod(value, _CYCLE_DAYS * day) for value in number.filter(far).to_pylist()), strict=True)
    nearer = _iso(pa.array(rests, _number_type(kind)).cast(kind)).to_pylist()
    signed = [f"{int(text[:4]) + 400 * cycle:+05d}{text[4:]}" for cycle, text in zip(cycles, nearer, strict=True)]
    return pc.replace_with_mask(texts, far, pa.array(signed, pa.string()))


def _number_type(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()


def _iso(column: pa.Array) -> pa.Array:
    return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)


_decode = msgspec.json.Decoder(list[str]).decode


def key_parts(name: str, by: Sequence[str], key: str) -> dict[str, str]:
    """By column, the text of a key.

    Args:
        by: the columns of a key of several; empty for one.
        key: its text; of several columns the JSON array of theirs.
    """
    return dict(zip(by, _decode(key), strict=True)) if by else {name: key}


def key_columns(name: str, by: Sequence[str], keys: pa.Array) -> list[tuple[str, pa.Array]]:
    """The same of many keys, as Arrow has them."""
    texts = keys.cast(pa.string())
    if not by:
        return [(name, texts)]
    parts = [_decode(key) for key in texts.to_pylist()]
    return [(column, pa.array([part[at] for part in parts], pa.string())) for at, column in enumerate(by)]


def python_values(column: pa.Array) -> list[Any]:
    """With the types that the rows of ``process()`` have: a DECIMAL is a ``Decimal``, a DATE a ``date``.

    A FLOAT is the number with its own digits. A date or timestamp that Python cannot hold, such as one after the year
    9999, is its text. Of a struct each field is such a value, so a window may begin with a text and end with a time.
    """
    if pa.types.is_struct(column.type):
        fields = {field.name: python_values(pc.struct_field(column, field.name)) for field in column.type}
        rows = zip(column.is_valid().to_pylist(), *fields.values(), strict=True)
        return [dict(zip(fields, values, strict=True)) if there else None for there, *values in rows]
    if pa.types.is_list(column.type):
        elements = python_values(column.flatten())
        return [None if at is None else elements[at] for at in _slices(column)]
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
