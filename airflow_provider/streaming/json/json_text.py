"""Which values are JSON at all, decided once for every job: whether Spark decodes them afterwards or the worker.

Spark's ``from_json`` takes more: single quotes, NaN, what follows the object, no text at all, halves of surrogate
pairs, and bytes that are no UTF-8, which it replaces, so that different keys become the same. None of these is JSON
(RFC 8259).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MAX_DEPTH: Final = 500
"""How deep a value may be nested. Python's decoders end at about 1,000, Spark's at exactly that."""

_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_NAME_IN_CODE: Final = r'\\u[0-9a-fA-F]{4}(?:[^"\\]|\\.)*"\s*:'
"""A name, or a part of one, that is written by its code."""
_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} deep"


def not_json(values: pa.ChunkedArray) -> dict[int, str]:
    """By index, why a value is not a JSON object; null values are left out."""
    bad = unsafe_text(values)
    texts = values.to_pylist()
    try:
        for text in texts:
            _decode(text)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        for at, text in enumerate(texts):
            if text is not None and at not in bad and (reason := _reason(text)) is not None:
                bad[at] = reason
    return dict(sorted(bad.items()))


def unsafe_text(values: pa.ChunkedArray) -> dict[int, str]:
    """By index, what makes a value unfit for any decoder: bytes that are no UTF-8, or nesting without bounds."""
    bad: dict[int, str] = {}
    if not _are_text(values):
        for at, value in enumerate(values.to_pylist()):
            if value is not None and (reason := _not_text(value)) is not None:
                bad[at] = reason
    long = pc.greater(pc.binary_length(values), 2 * MAX_DEPTH)
    if pc.any(long).as_py():
        for at in np.flatnonzero(pc.fill_null(long, False).to_numpy()).tolist():
            if _is_too_deep(values[at].as_py()):
                bad.setdefault(at, _TOO_DEEP)
    return bad


def not_text(column: pa.ChunkedArray) -> dict[int, str]:
    """By index, what holds a text that is not UTF-8, at any depth: Spark casts bytes to text as they are."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return {at: str(error) for at in range(len(column)) if (error := _invalid(column.slice(at, 1))) is not None}
    return {}


def _invalid(value: pa.ChunkedArray) -> pa.ArrowInvalid | None:
    try:
        # A slice is validated with all that it was cut from.
        pa.concat_arrays([chunk.take([0]) for chunk in value.chunks if len(chunk)]).validate(full=True)
    except pa.ArrowInvalid as error:
        return error
    return None


def raw_fields(value: bytes) -> list[tuple[str, bytes]]:
    """The names and tokens of a JSON object's fields as they stand in it, those of one name too."""
    text, fields = value.decode(), list[tuple[str, bytes]]()
    at = _next(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = _scan(text, at)
        begin = _next(text, _next(text, at) + 1)
        _, end = _scan(text, begin)
        fields.append((name, text[begin:end].encode()))
        at = _next(text, end)
        at = _next(text, at + 1) if text[at] == "," else at
    return fields


def repeated_fields(value: bytes, names: Collection[str]) -> list[tuple[str, bytes]]:
    """As `raw_fields`, those of some names where one of them may stand there more than once; else none."""
    if b"\\u" not in value and all(value.count(f'"{name}"'.encode()) < 2 for name in names):
        return []
    return [(name, token) for name, token in raw_fields(value) if name in names]


def with_several(values: pa.ChunkedArray, name: str) -> list[int]:
    """The values in which a field's name may stand more than once."""
    several = pc.greater(pc.count_substring(values, f'"{name}"'), 1)
    if pc.any(pc.match_substring(values, "\\u")).as_py():
        several = pc.or_(several, pc.match_substring_regex(values, _NAME_IN_CODE))
    found: list[int] = np.flatnonzero(pc.fill_null(several, False).to_numpy()).tolist()
    return found


def _next(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


class _Object(msgspec.Struct):
    """Any JSON object: it has no fields, so all of them are skipped."""


# Numbers stay texts: Python refuses to read very long ones.
_scan: Final = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
_decode: Final = msgspec.json.Decoder(_Object).decode


def _reason(text: bytes) -> str | None:
    try:
        _decode(text)
    except (msgspec.MsgspecError, ValueError) as error:
        return str(error)
    except RecursionError:
        return _TOO_DEEP
    return None


def _are_text(values: pa.ChunkedArray) -> bool:
    try:
        values.cast(pa.string())  # tests them all, and copies nothing
    except pa.ArrowInvalid:
        return False
    return True


def _not_text(value: bytes) -> str | None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"it is not UTF-8: {error.reason} at byte {error.start}"
    return None


def _is_too_deep(value: bytes) -> bool:
    if value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    if b"\\" in value:
        value = _ESCAPED.sub(b"__", value)
    characters = np.frombuffer(value, np.uint8)
    in_text = np.cumsum(characters == ord('"')) & 1
    # 0x20 is all that a brace differs by from a bracket.
    kinds = np.where(in_text, 0, characters | 0x20)
    steps = (kinds == ord("{")).astype(np.int32) - (kinds == ord("}"))
    return bool(np.cumsum(steps).max(initial=0) > MAX_DEPTH)
