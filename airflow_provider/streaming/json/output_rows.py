"""The rows that a function of ``process()`` returns, as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

__all__ = ["output_row", "rows_of", "with_key"]

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


_EXAMPLE: Final = 'return a list of dicts, such as [{"spent": 1.0}], or None for no output'


def rows_of(returned: Iterable[Any] | None) -> list[Any]:
    """What a job's function returned, one by one.

    Raises:
        TypeError: it is a dict, which would be taken for its names.
    """
    if isinstance(returned, dict):
        raise TypeError(f"it returned a dict: {_EXAMPLE}")
    return list(returned or ())


def with_key(key: Mapping[str, str], row: object) -> dict[str, Any]:
    """A row with the key's columns in front.

    Args:
        key: their texts, by name.
        row: as the job's function returned it.

    Raises:
        TypeError: the row is no dict.
        ValueError: it has a column of the key with something else in it: the record's key and its value would differ.
    """
    if not isinstance(row, dict):
        raise TypeError(f"it returned a row that is a {type(row).__name__}: {_EXAMPLE}")
    for name, text in key.items():
        if name in row and str(row[name]) != text:
            raise ValueError(
                f"the column {name!r} of an output row is {row[name]!r}, and the key is {text!r}: the output has "
                "the key in that column by itself, so give yours another name"
            )
    return {**key, **row}


def output_row(row: dict[str, Any]) -> bytes:
    """One UTF-8 JSON object.

    Numbers are as `operations.json_rows` writes them: a Decimal is a number with its digits, a NaN or an infinity
    a text.

    Raises:
        TypeError: it holds what JSON cannot.
    """
    encoded = _encode(row)
    # The encoder writes a float that is not finite as null.
    if b"null" in encoded or b"NaN" in encoded or b"Infinity" in encoded:
        return _encode(_finite(row))
    return encoded


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal) and not value.is_finite():
        return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_finite(item) for item in value]
    return value
