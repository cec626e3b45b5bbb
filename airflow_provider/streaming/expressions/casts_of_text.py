"""Texts read as values of another type, as Spark 4's ``CAST`` does it in ANSI mode.

Source: Spark 4.2, ``Cast``, ``UTF8String.toLongExact``, ``StringUtils``, ``Decimal.fromStringANSI``; Java's
``Double.parseDouble``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from airflow_provider.streaming.expressions.time_functions import Values
from airflow_provider.streaming.json.spark_decimals import number_of
from airflow_provider.streaming.json.spark_times import dates, each_text

_CONTROL: Final = "".join(map(chr, range(0x21)))
_AROUND: Final = f"{_CONTROL}\x7f"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4000}")
_DOUBLE: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED: Final = {
    "inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf, "-inf": -math.inf,
    "-infinity": -math.inf, "nan": math.nan,
}  # fmt: skip
_SIGNED_NAN: Final = ("+NaN", "-NaN")
_FLAGS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True), **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}  # fmt: skip


def read_text(texts: Values, kind: pa.DataType) -> Values:
    """Null for a text that is no value of this type."""
    if pa.types.is_date32(kind):
        return dates(texts)[0]
    return each_text(texts, _reader(kind), kind)


def read_all_texts(texts: Values, kind: pa.DataType) -> Values:
    """The same, and raises ``pyarrow.ArrowInvalid`` where one is none."""
    found = read_text(texts, kind)
    if found.null_count > texts.null_count:
        raise pa.ArrowInvalid("a text that is none")
    return found


def _reader(kind: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_integer(kind):
        bound = 2 ** (kind.bit_width - 1)
        return lambda text: _integer(text, bound)
    if pa.types.is_decimal(kind):
        return lambda text: _decimal(text, kind)
    return _double if pa.types.is_floating(kind) else lambda text: _FLAGS.get(text.strip(_AROUND).lower())


def _integer(text: str, bound: int) -> int | None:
    bare = text.strip(_AROUND)
    number = int(bare) if _INTEGER.fullmatch(bare) is not None else None
    return number if number is not None and -bound <= number < bound else None


def _decimal(text: str, kind: pa.Decimal128Type) -> Decimal | None:
    found = number_of(text.strip(_CONTROL), kind)
    return found if isinstance(found, Decimal) else None


def _double(text: str) -> float | None:
    bare = text.strip(_CONTROL)
    if (found := _DOUBLE.fullmatch(bare)) is not None:
        return float(found[1])
    if (found := _HEX.fullmatch(bare)) is not None:
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if bare[0] == "-" else math.inf
    return math.nan if bare in _SIGNED_NAN else _NAMED.get(bare.lower())
