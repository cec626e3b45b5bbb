"""A JSON token as the text that Spark's ``from_json`` keeps of it in a STRING field: as Jackson writes it again."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

_BEYOND_BMP: Final = re.compile("[\U00010000-\U0010ffff]")


class _Number(str):
    """A number's text."""

    __slots__ = ()


def jackson_text(token: bytes) -> str | None:
    """What a STRING field holds of a token; None for null.

    A text is itself, without its escapes. Of everything else the text is kept: integers with their digits, other
    numbers as Java writes the double, arrays and objects without spaces.

    Raises:
        ValueError: it is no JSON.
    """
    value = json.loads(token, parse_int=_integer, parse_float=_double, object_pairs_hook=_Pairs)
    return None if value is None else str(value) if type(value) is str else _written(value)


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object, those of one name too."""


def _integer(digits: str) -> _Number:
    return _Number("0" if digits == "-0" else digits)


def _double(text: str) -> _Number:
    value = float(text)
    if math.isinf(value):
        return _Number('"Infinity"' if value > 0 else '"-Infinity"')
    return _Number(_java_double(value))


def _java_double(value: float) -> str:
    """As ``Double.toString`` of Java 19 and later: the shortest digits, at least one on each side of the point."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = repr(value).partition("e")
    sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    whole, _, fraction = digits.partition(".")
    fraction = "" if fraction == "0" else fraction
    power = int(exponent or 0) + len(whole) - 1
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    digits, power = digits[leading:].rstrip("0"), power - leading
    if value in (5e-324, -5e-324):
        digits = "49"  # two digits are the least
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Pairs):
        return "{" + ",".join(f"{_quoted(name)}:{_written(item)}" for name, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return _BEYOND_BMP.sub(_escaped_pair, json.dumps(text, ensure_ascii=False))


def _escaped_pair(found: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04X}" for unit in _units(found[0]))


def _units(character: str) -> tuple[int, int]:
    data = character.encode("utf-16-be")
    return int.from_bytes(data[:2], "big"), int.from_bytes(data[2:], "big")
