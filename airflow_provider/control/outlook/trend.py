"""How fast a figure changes, said by its records: pure functions."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["MIN_POINTS", "MIN_SPAN_S", "Point", "Trend", "observed_s", "trend"]

MIN_POINTS: Final = 30
"""Fewer say nothing: half an hour of records."""
MIN_SPAN_S: Final = 3600.0
"""A shorter time may be a compaction of RocksDB, or a batch that a producer sent."""

_SLOTS: Final = 100
"""Records are thinned out to about so many: the pairs of a week's would be fifty million."""
_NEAR: Final = 0.25
_CLEAR: Final = 0.7
"""Of pairs of a figure that only scatters, half say one way, and in one of twenty cases six in ten do."""


@dataclass(frozen=True)
class Point:
    """A figure at one time.

    Args:
        at_ms: epoch ms.
        value: the figure.
        run: points of different runs are not compared: between them the figure may have jumped.
    """

    at_ms: int
    value: float
    run: Hashable = None


@dataclass(frozen=True, kw_only=True)
class Trend:
    """How fast a figure changes.

    Args:
        per_s: change in a second.
        observed_s: seconds over which it was seen, in all runs together.
        clear: whether seven tenths of the pairs, weighted, say the same way; those of mere scatter do not.
    """

    per_s: float
    observed_s: float
    clear: bool


def trend(points: Iterable[Point], *, jumps: bool = False) -> Trend | None:
    """The slope of Theil and Sen: the median of the slopes of all pairs of points, each weighted by its time.

    Up to a quarter of the points may be far off, as after a failure of a disk or a clock, without moving it much. Pairs
    are made within a run alone, so a jump between two runs (a restart, a task that came) is no change. A gap is no
    change either: what was missed shows in the points after it.

    Args:
        points: in any order.
        jumps: whether the figure may jump within a run, for a reason that says nothing of its future, as a disk does
            when somebody deletes files. Then points further apart than a quarter of the time are no pair, so that few
            pairs see the jump; a figure that changes once a day is told less exactly.

    Returns:
        None where there are fewer than `MIN_POINTS`, or they cover less than `MIN_SPAN_S`.
    """
    given = sorted(points, key=lambda point: point.at_ms)
    seconds = observed_s(given)
    if len(given) < MIN_POINTS or seconds < MIN_SPAN_S:
        return None
    slopes = [
        ((later[1] - earlier[1]) / (later[0] - earlier[0]), later[0] - earlier[0])
        for run in _thinned(given, max(1.0, 1000 * seconds / _SLOTS)).values()
        for earlier, later in itertools.combinations(run, 2)
        if later[0] > earlier[0] and not (jumps and later[0] - earlier[0] > _NEAR * seconds)
    ]
    if not slopes:
        return None
    per_s = _weighted_median(slopes)
    agree = sum(weight for slope, weight in slopes if slope * per_s > 0)
    return Trend(per_s=per_s, observed_s=seconds, clear=agree > _CLEAR * sum(weight for _, weight in slopes))


def observed_s(points: Iterable[Point]) -> float:
    """For how many seconds a figure was seen: from the first to the last point of each run, all runs together."""
    times: defaultdict[Hashable, list[int]] = defaultdict(list)
    for point in points:
        times[point.run].append(point.at_ms)
    return sum(max(of_run) - min(of_run) for of_run in times.values()) / 1000


_Place = tuple[float, float]
"""Seconds since the first point, and the figure."""


def _thinned(points: Sequence[Point], slot_ms: float) -> Mapping[Hashable, Sequence[_Place]]:
    """By run, the medians of what lies in each slot of time: fewer, and without single points that are far off."""
    begin = points[0].at_ms
    slots: defaultdict[tuple[Hashable, int], list[Point]] = defaultdict(list)
    for point in points:
        slots[point.run, int((point.at_ms - begin) // slot_ms)].append(point)
    runs: defaultdict[Hashable, list[_Place]] = defaultdict(list)
    for (run, _), held in slots.items():
        at_s = statistics.median((point.at_ms - begin) / 1000 for point in held)
        runs[run].append((at_s, statistics.median(point.value for point in held)))
    return runs


def _weighted_median(slopes: Iterable[tuple[float, float]]) -> float:
    ordered = sorted(slopes)
    half = sum(weight for _, weight in ordered) / 2
    passed = 0.0
    for slope, weight in ordered:
        passed += weight
        if passed >= half:
            return slope
    return ordered[-1][0]
