"""What the functions of times and dates come to for many rows, as Spark 4 has them in a session of UTC.

Source: Spark 4.2, ``sql/catalyst/expressions/datetimeExpressions`` and ``DateTimeUtils``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.json.json_rows import iso_times
from airflow_provider.streaming.json.spark_times import TIMESTAMP, timestamps

Values = Any
"""A `pa.Array`, or a `pa.Scalar` for the same value in every row."""


# -- points in time, and days -----------------------------------------------------------------------------------------

_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND


def event_ms(times: Values) -> Values:
    """Epoch ms of what may be an event time: of microseconds the earlier millisecond, of a window its last moment."""
    if pa.types.is_struct(times.type):
        return pc.subtract(event_ms(pc.struct_field(times, "end")), 1)
    if pa.types.is_integer(times.type):
        return times
    return units(times, 1_000)


def units(times: Values, us: int) -> Values:
    """Of so many microseconds each since 1970, the earlier one."""
    return _floored(times.cast(pa.int64()), us)


def _floored(number: Values, by: int) -> Values:
    unit = pa.scalar(by, pa.int64())
    found = pc.divide(number, unit)
    before = pc.less(pc.subtract(number, pc.multiply(found, unit)), 0)
    return pc.subtract(found, before.cast(pa.int64()))


def time_of(units: Values, us: int) -> Values:
    """The point in time so many units after 1970."""
    return pc.multiply_checked(units, pa.scalar(us, pa.int64())).cast(TIMESTAMP)


def times_of(texts: Values) -> Values:
    """Of texts; null for one that is no time."""
    return timestamps(texts)[0]


def date_of(times: Values) -> Values:
    """The day in which a point in time lies."""
    return units(times, _DAY).cast(pa.int32()).cast(pa.date32())


def midnight(days: Values) -> Values:
    """The point in time with which a day begins."""
    return time_of(_since_1970(days), _DAY)


def is_beyond_times(days: Values) -> Values:
    """Whether there is no such point in time."""
    number = _since_1970(days)
    return pc.or_(pc.less(number, -(2**63 // _DAY)), pc.greater(number, (2**63 - 1) // _DAY))


def _since_1970(days: Values) -> Values:
    return days.cast(pa.int32()).cast(pa.int64())


# -- parts of a time ---------------------------------------------------------------------------------------------------

_LENGTHS: Final = {
    "MILLISECOND": 1_000, "SECOND": _SECOND, "MINUTE": 60 * _SECOND, "HOUR": 3_600 * _SECOND, "DAY": _DAY, "DD": _DAY,
}  # fmt: skip
_MONTHS: Final = {"MON": 1, "MONTH": 1, "MM": 1, "QUARTER": 3, "YEAR": 12, "YYYY": 12, "YY": 12}
TRUNCATED: Final = frozenset({*_LENGTHS, *_MONTHS, "WEEK"})
"""The units of ``date_trunc``."""
_MONDAY: Final = 3
"""The first of 1970 was so many days behind one."""


def truncated(times: Values, unit: str) -> Values:
    """To the begin of one of `TRUNCATED`."""
    return time_of(*_begin(times, unit))


def begins_before_all(times: Values, unit: str) -> Values:
    """Whether what `truncated` comes to is before all points in time."""
    begin, us = _begin(times, unit)
    return pc.less(begin, -(2**63 // us))


def _begin(times: Values, unit: str) -> tuple[Values, int]:
    """Since 1970, and in how many microseconds each."""
    if (us := _LENGTHS.get(unit)) is not None:
        return units(times, us), us
    days = units(times, _DAY)
    if unit == "WEEK":
        weeks = _floored(pc.add(days, _MONDAY), 7)
        return pc.subtract(pc.multiply(weeks, 7), _MONDAY), _DAY
    months = pc.fill_null(days, 0).to_numpy().astype("datetime64[D]").astype("datetime64[M]").astype("int64")
    first = months // _MONTHS[unit] * _MONTHS[unit]
    at = pa.array(first.astype("datetime64[M]").astype("datetime64[D]").astype("int64"))
    return pc.if_else(days.is_valid(), at, None), _DAY


_PLACES: Final = {"MM": -22, "dd": -19, "HH": -16, "mm": -13, "ss": -10}
"""Where they begin in a time in ISO 8601 with microseconds and a Z, from its end."""
_MIDNIGHT: Final = "T00:00:00.000000Z"


def formatted(times: Values, pattern: Sequence[str]) -> Values:
    """By the parts of a pattern of ``date_format``: ``yyyy``, two letters of `_PLACES`, or signs."""
    texts = iso_times(times)
    if pa.types.is_date32(times.type):
        texts = pc.binary_join_element_wise(texts, _MIDNIGHT, "")
    pieces = []
    for part in pattern:
        if part == "yyyy":
            pieces.append(pc.utf8_slice_codeunits(texts, 0, -23))
        elif part in _PLACES:
            pieces.append(pc.utf8_slice_codeunits(texts, _PLACES[part], _PLACES[part] + 2))
        else:
            pieces.append(pa.scalar(part))
    return pc.binary_join_element_wise(*pieces, pa.scalar(""))


def date_part(times: Values, part: str) -> Values:
    """One part of `formatted` as an INT."""
    return pc.cast(pc.utf8_ltrim(formatted(times, [part]), "+"), pa.int32())


def time_part(part: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """What Arrow takes of a time, as an INT."""
    return lambda times: pc.cast(part(times), pa.int32())
