"""A DECIMAL in JSON, as Spark's ``from_json`` reads it.

Source: Spark 4.2, ``JacksonParser``, ``ExprUtils.getDecimalParser`` and ``Decimal.set``; Java's ``BigDecimal``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.json.spark_times import shown

_SHOWN: Final = 40
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,9})?")
_WIDE: Final = Context(prec=4_000)


def decimals(tokens: Sequence[bytes], kind: pa.Decimal128Type) -> tuple[pa.Array, list[int]]:
    """JSON tokens as numbers of a type, rounded half up, and the indices of those that are none, which are null."""
    texts = pa.array(tokens, pa.binary()).cast(pa.string())
    texts = pc.if_else(pc.equal(texts, "null"), pa.scalar(None, pa.string()), texts)
    whole, scale = kind.precision - kind.scale, kind.scale
    fraction = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
    if whole and pc.all(pc.match_substring_regex(texts, rf"^-?[0-9]{{1,{whole}}}{fraction}$")).as_py() is not False:
        return texts.cast(kind), []
    found = [None if token == b"null" else decimal_of(token, kind) for token in tokens]
    none = [at for at, number in enumerate(found) if isinstance(number, str)]
    return pa.array([number if isinstance(number, Decimal) else None for number in found], kind), none


def decimal_of(token: bytes, kind: pa.Decimal128Type) -> Decimal | str:
    """A JSON token as a number; why it is none."""
    text = str(msgspec.json.decode(token)) if token[:1] == b'"' else token.decode()
    found = number_of(text, kind)
    return f"{token[:_SHOWN].decode('utf-8', 'replace')} is none" if found == "" else found


def number_of(text: str, kind: pa.Decimal128Type) -> Decimal | str:
    """A text as a number; why it does not fit, empty for one that is none."""
    if _NUMBER.fullmatch(text) is None:
        return ""
    number, whole = Decimal(text), kind.precision - kind.scale
    if number.adjusted() <= whole:  # one that is far larger would get as many digits
        number = number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
    if number and number.adjusted() >= whole:
        return f"{text[:_SHOWN]} has more than {whole} digits before the point"
    return number or Decimal(0)


def misread_decimal(token: bytes) -> str | None:
    """How the JSON of a DECIMAL would be read as nobody wrote it: a comma is dropped, so that ``"1,5"`` is 15."""
    if token[:1] != b'"' or "," not in (text := str(msgspec.json.decode(token))):
        return None
    return f"is {shown(text)}: a comma is no part of a number in JSON. Write 1234.5, as a number or as a text"
