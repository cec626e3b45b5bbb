"""What left an airport within an hour: the demo's second result, by the job and by pandas."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AirportHour"]


@dataclass(frozen=True, slots=True)
class AirportHour:
    """The flights that were to leave one airport within one hour.

    Args:
        flights: how many.
        dep_delay_mean: the mean of their departure delays in minutes; None when none departed.
    """

    flights: int
    dep_delay_mean: float | None
