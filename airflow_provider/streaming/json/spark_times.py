"""Times and dates in texts, as Spark's ``from_json`` reads a TIMESTAMP in a session of UTC, and a DATE.

Source: Spark 4.2, ``SparkDateTimeUtils.parseTimestampString``, ``stringToTimestamp``, ``stringToDate`` and
``getZoneId``; Java's ``ZoneId.of``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

_PLAIN: Final = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z?$"
"""What Arrow reads as Spark does, if it reads it."""
_AROUND_ZONE: Final = "".join(map(chr, range(0x21)))
_AROUND: Final = f"{_AROUND_ZONE}\x7f"
_TIME: Final = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T](?P<hour>[0-9]{1,2})"
    r"(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_DATE: Final = re.compile(
    r"(?P<year>[+-]?[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL
)
_PLAIN_DATE: Final = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}$"
_ONE_HOUR: Final = re.compile(r"([+-])([0-9]):")
_ONE_MINUTE: Final = re.compile(r"([+-])([0-9]{2}):([0-9])$")
_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?:(?P<h>[0-9]{1,2})|(?P<colons>[0-9]{2}(?::[0-9]{2}){1,2})|(?P<bare>(?:[0-9]{2}){2,3}))"
)
_YEAR: Final = re.compile(r"[+-]?[0-9]{4}")
_BY_OFFSET: Final = re.compile(r"Z|(?:UTC|GMT|UT)?(?:[+-][0-9:]*)?")
_NUMBER: Final = re.compile(rb"-?\d+")
_YEARS_1_TO_9999: Final = range(-62_135_596_800, 253_402_300_800)
"""Seconds since 1970."""
_SHOWN: Final = 40
_MOST_OFFSET_S: Final = 18 * 3600
_REMEMBERED: Final = 64
"""Characters of the longest text that is kept in memory with what it comes to."""
_LEAST: Final = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
"""What is meant where it is not said."""
_CYCLE_YEARS: Final = 400
_DAY_S: Final = 86_400
_CYCLE_S: Final = 146_097 * _DAY_S
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def timestamps(texts: pa.Array) -> tuple[pa.Array, list[int]]:
    """Texts as points in time, and the indices of those that are none, which are null."""
    if pc.all(pc.fill_null(pc.match_substring_regex(texts, _PLAIN), True)).as_py():
        try:
            plain = pc.utf8_rtrim(texts, "Z").cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            pass  # such as the 31st of February
        else:
            return plain.cast(pa.int64()).cast(TIMESTAMP), []
    found = each_text(texts, timestamp_us, pa.int64())
    return found.cast(TIMESTAMP), _lost(texts, found)


def dates(texts: pa.Array) -> tuple[pa.Array, list[int]]:
    """Texts as days, and the indices of those that are none, which are null."""
    if pc.all(pc.fill_null(pc.match_substring_regex(texts, _PLAIN_DATE), True)).as_py():
        try:
            return texts.cast(pa.date32()), []
        except pa.ArrowInvalid:
            pass  # such as the 31st of February
    found = each_text(texts, date_days, pa.int32())
    return found.cast(pa.date32()), _lost(texts, found)


def each_text(texts: pa.Array, of: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """What each text comes to, looked at once where it stands in several rows; null for null."""
    coded = texts.dictionary_encode()
    read = [None if text is None else of(text) for text in coded.dictionary.to_pylist()]
    return pa.array(read, kind).take(coded.indices)


def _lost(texts: pa.Array, found: pa.Array) -> list[int]:
    bad = pc.and_(pc.is_valid(texts), pc.is_null(found))
    indices: list[int] = np.flatnonzero(bad.to_numpy(zero_copy_only=False)).tolist()
    return indices


def misread_date(token: bytes) -> str | None:
    """A text of a DATE that is no date: Spark would take one without its GMT, and a number for days since 1970."""
    if token[:1] != b'"' or date_days(text := str(msgspec.json.decode(token))) is not None:
        return None
    return f"is {shown(text)}, which is no date"


def misread_time(token: bytes) -> str | None:
    """How the JSON of a TIMESTAMP would be read as nobody wrote it; None where it would not.

    It never would where `timestamp_us` takes it. A time without a date gets the date of the day on which it is read, so
    that a replay comes to another state; where a region's clock stood, two versions of its rules say otherwise;
    milliseconds are seconds of the year 55000.
    """
    if token[:1] == b'"':
        text = str(msgspec.json.decode(token))
        bare = text.strip(_AROUND)
        if not _YEAR.match(bare):
            return f"is {shown(text)}, which has no date"
        found = _TIME.fullmatch(bare)
        if "GMT" in bare and timestamp_us(text) is None:
            return f"is {shown(text)}, which Spark would read without its GMT: write a time, and how far it is from UTC"
        if found is not None and found["zone"] and not _BY_OFFSET.fullmatch(found["zone"].strip(_AROUND_ZONE)):
            return f"is {shown(text)}, of which the zone has a name: write how far it is from UTC, such as +01:00"
        return None
    if _NUMBER.fullmatch(token) and (len(token) > len("-62135596800") or int(token) not in _YEARS_1_TO_9999):
        return (
            f"is {token[:_SHOWN].decode()}: a number is read as seconds since 1970, and these lie outside of the years "
            "1 to 9999. Are they milliseconds? Then write a text, or declare the column BIGINT"
        )
    return None


def shown(text: str) -> str:
    """A text for a message, cut where it is long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def date_days(text: str) -> int | None:
    """A text as days since 1970; None where it is no date."""
    return _remembered_days(text) if len(text) <= _REMEMBERED else _days(text)


def timestamp_us(text: str) -> int | None:
    """A text as microseconds since 1970; None where it is no time."""
    return _remembered_us(text) if len(text) <= _REMEMBERED else _us(text)


def _days(text: str) -> int | None:
    found = _DATE.fullmatch(text.strip(_AROUND))
    seconds = None if found is None else _seconds(found)
    days = None if seconds is None else seconds // _DAY_S
    return days if days is not None and -(2**31) <= days < 2**31 else None


def _us(text: str) -> int | None:
    found = _TIME.fullmatch(text.strip(_AROUND))
    seconds = None if found is None else _seconds(found)
    if found is None or seconds is None:
        return None
    micros = int((found["fraction"] or "")[:6].ljust(6, "0"))
    if found["zone"] is not None:
        ahead = _offset_s(found["zone"].strip(_AROUND_ZONE))
        if ahead is None:
            return None
        seconds -= ahead
    us = seconds * 1_000_000 + micros
    return us if -(2**63) <= us < 2**63 else None


_remembered_days, _remembered_us = lru_cache(maxsize=4096)(_days), lru_cache(maxsize=4096)(_us)


def _seconds(found: re.Match[str]) -> int | None:
    """A date, with or without a time of day, in seconds since 1970; None where there is no such day or time."""
    # Python's years are 1 to 9999, and the calendar comes again after 400.
    cycles, year = divmod(int(found["year"]) - 2_000, _CYCLE_YEARS)
    given = found.groupdict()
    month, day, hour, minute, second = (int(given.get(name) or least) for name, least in _LEAST.items())
    try:
        moment = datetime(2_000 + year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return cycles * _CYCLE_S + (moment - _EPOCH) // timedelta(seconds=1)


def _offset_s(name: str) -> int | None:
    """The seconds that a zone is ahead of UTC; None for one that has another name than its offset, and for none."""
    name = _ONE_HOUR.sub(r"\g<1>0\g<2>:", name, count=1)
    name = _ONE_MINUTE.sub(r"\g<1>\g<2>:0\g<3>", name, count=1)
    if name in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = _OFFSET.fullmatch(name)
    if found is None:
        return None
    digits = found["h"] or (found["colons"] or found["bare"]).replace(":", "")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4] or 0), int(digits[4:] or 0)
    ahead = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or ahead > _MOST_OFFSET_S:
        return None
    return -ahead if found["sign"] == "-" else ahead
