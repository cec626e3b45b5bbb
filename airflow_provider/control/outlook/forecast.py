"""When a figure reaches a limit: a pure function of its records."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

DAY_S: Final = 86_400

_MIN_POINTS: Final = 30
"""Fewer say nothing: half an hour of records."""
_MIN_SPAN_S: Final = 3600.0
"""A shorter time may be a compaction of RocksDB, or a batch that a producer sent."""
_STALE_MS: Final = 15 * 60_000
_AHEAD: Final = 10
"""So many times as long as a figure was seen, and no longer, its future is told."""
_NEWEST: Final = 5
_CLEAR: Final = 0.5
"""Of the correlation with time: of thirty records that only scatter, one set in two hundred has as much."""


@dataclass(frozen=True)
class Point:
    """A figure at one time.

    Args:
        run: points of different runs are not compared: between them the figure may have jumped.
    """

    at_ms: int
    value: float
    run: Hashable = None


class Trend(NamedTuple):
    """How fast a figure changes.

    Args:
        clear: whether it changes with time, and does not only scatter.
    """

    per_s: float
    clear: bool


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


def forecast(points: Iterable[Point], limit: float, *, rises: bool, now_ms: int) -> Forecast:
    """When the limit is reached, if the figure goes on as it did.

    It begins at the median of the newest points, and goes on by the slope of all of them (`trend`), at most ten times
    as far ahead as the time that was seen. Too few points (`too_few`) tell nothing but that a limit is reached.

    Args:
        rises: whether the limit lies above; else it lies below.
    """
    given = sorted(points, key=lambda point: point.at_ms)
    why = too_few(given, now_ms)
    if not given:
        return Forecast(outlook=Outlook.NOT_ENOUGH, value=None, limit=limit, why=why or "")
    value = statistics.median([point.value for point in given if point.run == given[-1].run][-_NEWEST:])
    found = trend(given) if why is None else None
    per_day = None if found is None else found.per_s * DAY_S
    age_ms = now_ms - given[-1].at_ms
    if age_ms <= _STALE_MS and (value >= limit if rises else value <= limit):
        return Forecast(outlook=Outlook.REACHED, value=value, limit=limit, per_day=per_day, in_s=0.0)
    if found is None:
        why = why or "no process ran for long enough"
        return Forecast(outlook=Outlook.NOT_ENOUGH, value=value, limit=limit, why=why)
    nearer_per_s = found.per_s if rises else -found.per_s
    if not found.clear or nearer_per_s <= 0:
        return Forecast(outlook=Outlook.STEADY, value=value, limit=limit, per_day=per_day)
    in_s = max(0.0, abs(limit - value) / nearer_per_s - age_ms / 1000)
    if in_s > _AHEAD * _observed_s(given):
        return Forecast(outlook=Outlook.LATER, value=value, limit=limit, per_day=per_day)
    return Forecast(outlook=Outlook.AHEAD, value=value, limit=limit, per_day=per_day, in_s=in_s)


def too_few(points: Sequence[Point], now_ms: int) -> str | None:
    """What is missing for a trend of points, the oldest first, in one line; None where nothing is."""
    if not points:
        return "there is no record"
    age_ms = now_ms - points[-1].at_ms
    if age_ms > _STALE_MS:
        return f"the newest record is {age_ms / 60_000:,.0f} minutes old"
    minutes = _observed_s(points) / 60
    if len(points) < _MIN_POINTS or 60 * minutes < _MIN_SPAN_S:
        return (
            f"{len(points)} record(s) over {minutes:,.0f} minutes, {_MIN_POINTS} over {_MIN_SPAN_S / 60:.0f} minutes "
            "are needed"
        )
    return None


def trend(points: Iterable[Point]) -> Trend | None:
    """The line of least squares, of one slope for all runs and a level for each; None where no run lasts."""
    times, values = list[float](), list[float]()
    for run in _runs(points):
        begin_ms = statistics.fmean(point.at_ms for point in run)
        level = statistics.fmean(point.value for point in run)
        times += ((point.at_ms - begin_ms) / 1000 for point in run)
        values += (point.value - level for point in run)
    if not any(times):
        return None
    slope = statistics.linear_regression(times, values, proportional=True).slope
    clear = len(set(values)) > 1 and abs(statistics.correlation(times, values)) > _CLEAR
    return Trend(slope, clear)


def _observed_s(points: Iterable[Point]) -> float:
    """From the first to the last point of each run, all runs together."""
    return sum(run[-1].at_ms - run[0].at_ms for run in _runs(points)) / 1000


def _runs(points: Iterable[Point]) -> Iterable[Sequence[Point]]:
    runs: defaultdict[Hashable, list[Point]] = defaultdict(list)
    for point in points:
        runs[point.run].append(point)
    return runs.values()
