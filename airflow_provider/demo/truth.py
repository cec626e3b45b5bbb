"""What has to come out, computed by pandas from the same flights and by nothing of the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from airflow_provider.demo.aircraft import Aircraft

__all__ = ["Truth", "compute_truth"]


@dataclass(frozen=True)
class Truth:
    """The right result.

    Args:
        aircraft: by tail number.
        flights: how many flights there are.
        no_tail_number: how many of them have no tail number, and so belong to no aircraft.
    """

    aircraft: Mapping[str, Aircraft]
    flights: int
    no_tail_number: int


def compute_truth(flights: pd.DataFrame) -> Truth:
    """Return the result for flights in the order in which they are published.

    Args:
        flights: columns ``tailnum``, ``distance``, ``dep_delay`` and ``dest``.
    """
    known = flights[flights["tailnum"].notna()]
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
    return Truth(
        {
            str(row.Index): Aircraft(
                int(row.flights),
                _number(row.distance),
                _number(row.dep_delay_sum),
                _number(row.dep_delay_max),
                None if pd.isna(row.last_dest) else str(row.last_dest),
            )
            for row in rows
        },
        len(flights),
        len(flights) - len(known),
    )


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
