"""Whether what a job's methods were given is of the kind that they take, and durations in the words of Spark."""

from __future__ import annotations

import math
import re
from numbers import Integral, Real
from typing import Final

from airflow_provider.errors import ConfigurationError

_MAX_CHARS: Final = 80
"""Of what was given, in an error: a stream or a job would fill pages."""


def given_text(value: object) -> str:
    """What was given, in few words, for an error."""
    text = repr(value)
    if len(text) <= _MAX_CHARS:
        return text
    if isinstance(value, (list, tuple, set, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return text[:_MAX_CHARS] + "..." if isinstance(value, (str, bytes)) else f"a {type(value).__name__}"


def check_kind(where: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Refuse a value of another type.

    Args:
        where: the method and its argument, such as ``stream() got topic=``.
        expected: the same in words, with an example.
    """
    if not isinstance(value, kinds):
        raise ConfigurationError(f"{where}{given_text(value)}: give {expected}.")


def check_number(where: str, value: object, unit: str, *, whole: bool = False, none: str = "") -> None:
    """Refuse what is no number above 0.

    Args:
        value: what was given; None is taken.
        whole: whether fractions are refused, too.
        none: what None means, for the message; empty where it means that nothing was given.
    """
    if value is None:
        return
    kind = Integral if whole else Real
    if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value) or value <= 0:
        needed = f"a whole number above 0 {unit}" if whole else f"a number above 0 {unit}"
        raise ConfigurationError(f"{where}={value!r}: it must be {needed}{f', or None for {none}' if none else ''}.")


_UNITS: Final = {
    "week": 7 * 86_400_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
}
# Later than any time that a record can have (years 1 to 9999), and far from where 64 bits end.
_LONGEST_MS: Final = 10_000 * 366 * _UNITS["day"]
_TEXT: Final = re.compile(r"\s*(?:interval\s+)?((?:\d+\s*[a-z]+\s*)+)", re.IGNORECASE)
_PART: Final = re.compile(r"(\d+)\s*([a-z]+)")


def duration_ms(where: str, text: object, *, zero: bool = False) -> int:
    """A duration in milliseconds.

    Args:
        where: what was given it, such as ``window()``, for the message.
        text: such as ``"1 hour"`` or ``"1 day 12 hours"``.
        zero: whether there may be none at all.

    Raises:
        ConfigurationError: it is no duration, has a unit whose length differs, such as a month, is not above 0, or is
            more than 10,000 years.
    """
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is not None:
        parts = [(_whole(digits), unit) for digits, unit in _PART.findall(found[1].lower())]
        if all(unit.removesuffix("s") in _UNITS for _, unit in parts):
            ms = sum(number * _UNITS[unit.removesuffix("s")] for number, unit in parts)
            if ms > _LONGEST_MS:
                raise ConfigurationError(
                    f"{where} got {found[0][:100]!r}: give at most 10,000 years ({_LONGEST_MS // _UNITS['day']} days), "
                    "which no two records are apart."
                )
            if ms > 0 or zero:
                return ms
    least = "0 or more" if zero else "more than 0"
    raise ConfigurationError(
        f"{where} got {text!r}: give {least} of {', '.join(f'{unit}s' for unit in _UNITS)}, such as '10 minutes' or "
        "'1 day 12 hours'. Months and years have no one length."
    )


def _whole(digits: str) -> int:
    # int() refuses more than some thousand digits with an error of its own.
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) < 20 else 10**20


def duration_text(ms: int) -> str:
    """The same in words, for messages and signatures: one text for each length."""
    words = []
    for unit, length in _UNITS.items():
        number, ms = divmod(ms, length)
        if number:
            words.append(f"{number} {unit}{'s' if number > 1 else ''}")
    return " ".join(words) or "0 seconds"
