"""How many timers are set, as commits count them and heartbeats say it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class TimerCount:
    """Timers of a kind that were set and have not fired.

    Args:
        next_ms: when the first of them is due, epoch ms; None where there is none.
    """

    number: int = 0
    next_ms: int | None = None

    @classmethod
    def sum_of(cls, counts: Iterable[TimerCount]) -> TimerCount:
        """Of several tasks."""
        found = list(counts)
        times = (one.next_ms for one in found if one.next_ms is not None)
        return cls(sum(one.number for one in found), min(times, default=None))
