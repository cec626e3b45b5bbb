"""How long something is, in the words of Spark's intervals."""

from __future__ import annotations

import re
from typing import Final

from airflow_provider.errors import ConfigurationError

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
