"""What has to come out, computed by pandas from the same flights and by nothing of the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd


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


@dataclass(frozen=True, slots=True)
class AirportHour:
    """The flights that were to leave one airport within one hour.

    Args:
        flights: how many.
        dep_delay_mean: the mean of their departure delays in minutes; None when none departed.
    """

    flights: int
    dep_delay_mean: float | None


@dataclass(frozen=True)
class Truth:
    """The right result.

    Args:
        aircraft: by tail number.
        airports: by airport and the start of the hour, such as ``JFK@2013-01-01T10:00:00.000Z``.
        flights: how many flights there are.
        no_tail_number: how many of them have no tail number, and so belong to no aircraft.
    """

    aircraft: Mapping[str, Aircraft]
    airports: Mapping[str, AirportHour]
    flights: int
    no_tail_number: int


def compute_truth(flights: pd.DataFrame) -> Truth:
    """Return the result for flights in the order in which they are published.

    Args:
        flights: columns ``tailnum``, ``origin``, ``dest``, ``distance``, ``dep_delay`` and ``time_hour``.
    """
    known = flights[flights["tailnum"].notna()]
    return Truth(_aircraft(known), _airports(flights), len(flights), len(flights) - len(known))


def _aircraft(known: pd.DataFrame) -> dict[str, Aircraft]:
    grouped = known.groupby("tailnum", sort=False)
    table = pd.DataFrame(
        {
            "flights": grouped.size(),
            "distance": grouped["distance"].sum(min_count=1),
            "dep_delay_sum": grouped["dep_delay"].sum(min_count=1),
            "dep_delay_max": grouped["dep_delay"].max(),
            "last_dest": known.drop_duplicates("tailnum", keep="last").set_index("tailnum")["dest"],
        }
    )
    rows: Any = table.itertuples()
    return {
        str(row.Index): Aircraft(
            int(row.flights),
            _number(row.distance),
            _number(row.dep_delay_sum),
            _number(row.dep_delay_max),
            None if pd.isna(row.last_dest) else str(row.last_dest),
        )
        for row in rows
    }


def _airports(flights: pd.DataFrame) -> dict[str, AirportHour]:
    hours = pd.to_datetime(flights["time_hour"], utc=True).dt.floor("h").dt.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    delays = flights["dep_delay"].groupby(flights["origin"] + "@" + hours, sort=False)
    rows: Any = pd.DataFrame({"flights": delays.size(), "mean": delays.mean()}).itertuples()
    return {str(row.Index): AirportHour(int(row.flights), _number(row.mean)) for row in rows}


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
