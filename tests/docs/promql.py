"""The part of PromQL that the alerts use: one function at the most over one selector, compared with a number."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np

Points = list[tuple[float, float]]
Series = dict[tuple[str, frozenset[tuple[str, str]]], Points]
"""By name and tags, times in seconds with values, the oldest first."""

_EXPRESSION = re.compile(
    r"(?:(?P<function>absent|increase|deriv|predict_linear)\()?(?P<name>[a-z_]+)(?:\{(?P<tags>[^}]*)\})?"
    r"(?:\[(?P<range>\d+)(?P<unit>[smhd])\])?(?:, (?P<ahead>\d+))?\)?(?: (?P<than>[<>]) (?P<limit>\d+))?"
)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def fires(expression: str, series: Series, now_s: float) -> bool:
    """Whether a series of the result is there.

    `increase` is not extrapolated to the ends of its range, as Prometheus does: it is above 0 in the same cases.

    Raises:
        ValueError: the expression has something else in it.
    """
    found = _EXPRESSION.fullmatch(expression)
    if found is None or (found["function"] in (None, "absent")) is not (found["range"] is None):
        raise ValueError(f"{expression!r} is beyond this part of PromQL.")
    tags = set(re.findall(r'(\w+)="([^"]*)"', found["tags"] or ""))
    began = now_s - int(found["range"] or 300) * _UNITS[found["unit"] or "s"]
    chosen = [
        inside
        for (name, of), points in series.items()
        if name == found["name"]
        and tags <= of
        and (inside := [point for point in points if began <= point[0] <= now_s])
    ]
    if found["function"] == "absent":
        return not chosen
    values = [
        value for points in chosen if (value := _value(found["function"], points, found["ahead"], now_s)) is not None
    ]
    limit = float(found["limit"])
    return any(value > limit if found["than"] == ">" else value < limit for value in values)


def _value(function: str | None, points: Points, ahead: str | None, now_s: float) -> float | None:
    if function is None:
        return points[-1][1]
    if len(points) < 2:
        return None
    if function == "increase":
        steps = [(before[1], after[1]) for before, after in itertools.pairwise(points)]
        return sum(after - before if after >= before else after for before, after in steps)
    slope, at_now = _line(points, now_s)
    return slope if function == "deriv" else at_now + slope * int(ahead or 0)


def _line(points: Sequence[tuple[float, float]], now_s: float) -> tuple[float, float]:
    times, values = np.array(points).T
    slope, at_now = np.polyfit(times - now_s, values, 1)
    return float(slope), float(at_now)
