"""What is known of one aircraft: the demo's result, by the job and by pandas."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Aircraft"]


@dataclass(frozen=True, slots=True)
class Aircraft:
    """One aircraft's flights.

    Args:
        flights: how many.
        distance: their miles, added up.
        dep_delay_sum: the minutes of their departure delays, added up; None when none departed.
        dep_delay_max: the greatest of them; None when none departed.
        last_dest: where the last one went.
    """

    flights: int
    distance: float | None
    dep_delay_sum: float | None
    dep_delay_max: float | None
    last_dest: str | None
