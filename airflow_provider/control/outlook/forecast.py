"""When a figure reaches a limit: a pure function of its records."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.control.outlook.trend import MIN_POINTS, MIN_SPAN_S, Point, Trend, observed_s, trend

__all__ = ["DAY_S", "Forecast", "Outlook", "forecast", "too_few"]

DAY_S: Final = 86_400

_STALE_MS: Final = 15 * 60_000
_AHEAD: Final = 10
"""So many times as long as a figure was seen, and no longer, its future is told."""
_NEWEST: Final = 5


class Outlook(Enum):
    """What can be said of the time at which a limit is reached."""

    NOT_ENOUGH = "not_enough_records"
    """Nothing can be."""
    REACHED = "reached"
    """It is reached now."""
    AHEAD = "ahead"
    """It will be, if things go on as they do."""
    LATER = "later"
    """It will be, later than the records reach ahead."""
    STEADY = "steady"
    """It will not be, if things go on as they do."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """When a figure reaches a limit.

    Args:
        outlook: see `Outlook`.
        value: the figure now; None where it is not known.
        limit: what it is not to reach, in the same unit.
        per_day: how much it changes in a day; None where that is not known.
        in_s: seconds until the limit is reached; 0 where it is; None where that is not known, or it will not be.
        why: with `Outlook.NOT_ENOUGH`, what is missing, in one line; empty otherwise.
    """

    outlook: Outlook
    value: float | None
    limit: float
    per_day: float | None = None
    in_s: float | None = None
    why: str = ""

    def within(self, seconds: float | None) -> bool:
        """Whether the limit is reached now, or within so many seconds; with None, now."""
        if self.outlook is Outlook.AHEAD and seconds is not None and self.in_s is not None:
            return self.in_s <= seconds
        return self.outlook is Outlook.REACHED


def forecast(points: Iterable[Point], limit: float, *, rises: bool, now_ms: int, jumps: bool = False) -> Forecast:
    """When the limit is reached, if the figure goes on as it did.

    It begins at the median of the newest points, and goes on by the slope of all of them (`trend.trend`). It reaches as
    far ahead as ten times the time that was seen. It says that there are not enough records where there are fewer than
    30, where they cover less than an hour, and where the newest is older than a quarter of an hour.

    Args:
        points: in any order.
        limit: what is not to be reached.
        rises: whether the limit lies above; else it lies below.
        now_ms: epoch ms, by the clock of the points.
        jumps: whether the figure may jump, see `trend.trend`.
    """
    given = sorted(points, key=lambda point: point.at_ms)
    if (why := too_few(given, now_ms)) is not None and not given:
        return Forecast(outlook=Outlook.NOT_ENOUGH, value=None, limit=limit, why=why)
    of_run = [point.value for point in given if point.run == given[-1].run]
    value = statistics.median(of_run[-_NEWEST:])
    stale = now_ms - given[-1].at_ms > _STALE_MS
    if not stale and (value >= limit if rises else value <= limit):
        return Forecast(outlook=Outlook.REACHED, value=value, limit=limit, per_day=_per_day(given, jumps), in_s=0.0)
    found = None if why is not None else trend(given, jumps=jumps)
    if found is None:
        return Forecast(
            outlook=Outlook.NOT_ENOUGH, value=value, limit=limit, why=why or "no process ran for long enough"
        )
    nearer = found.per_s if rises else -found.per_s
    per_day = found.per_s * DAY_S
    if not found.clear or nearer <= 0:
        return Forecast(outlook=Outlook.STEADY, value=value, limit=limit, per_day=per_day)
    in_s = max(0.0, abs(limit - value) / nearer - (now_ms - given[-1].at_ms) / 1000)
    if in_s > _AHEAD * found.observed_s:
        return Forecast(outlook=Outlook.LATER, value=value, limit=limit, per_day=per_day)
    return Forecast(outlook=Outlook.AHEAD, value=value, limit=limit, per_day=per_day, in_s=in_s)


def too_few(points: Sequence[Point], now_ms: int) -> str | None:
    """What is missing for a trend, in one line; None where nothing is.

    Args:
        points: the oldest first.
        now_ms: epoch ms.
    """
    if not points:
        return "there is no record"
    age_ms = now_ms - points[-1].at_ms
    if age_ms > _STALE_MS:
        return f"the newest record is {age_ms / 60_000:,.0f} minutes old"
    minutes = observed_s(points) / 60
    if len(points) < MIN_POINTS or 60 * minutes < MIN_SPAN_S:
        return (
            f"{len(points)} record(s) over {minutes:,.0f} minutes, {MIN_POINTS} over {MIN_SPAN_S / 60:.0f} minutes are "
            "needed"
        )
    return None


def _per_day(points: Sequence[Point], jumps: bool) -> float | None:
    found: Trend | None = trend(points, jumps=jumps)
    return None if found is None else found.per_s * DAY_S
