"""What came of a query, in the shape in which the oracle gives it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["CLOSING", "TABLES", "differences", "rows_of"]

CLOSING: Final = frozenset({"q4", "q5", "q7", "q8", "q9", "q11"})
"""Queries with windows that come out when they are over. So events of the day after have to follow (`Model.closing`):
they close all windows before them, and the windows that they are in themselves stay open, so nothing comes of them."""

TABLES: Final = frozenset({"q4", "q15", "q16", "q17", "q18", "q19"})
"""Queries of which the last record of each key counts; of the others every record does."""

Row = dict[str, Any]


def rows_of(query: str, records: Iterable[tuple[str, Row]]) -> list[Row]:
    """The rows of a sink, of its records with their keys, oldest first."""
    values = dict(records).values() if query in TABLES else [value for _, value in records]
    return [row for value in values for row in _unpacked(query, value)]


def differences(expected: Iterable[Row], found: Iterable[Row]) -> str:
    """Rows that are missing or too many, some of each; empty where there are none."""
    wanted, got = (Counter(json.dumps(_plain(row), sort_keys=True) for row in rows) for rows in (expected, found))
    missing, more = wanted - got, got - wanted
    if not missing and not more:
        return ""
    shown = [f"{what}: {row}" for what, rows in (("missing", missing), ("too many", more)) for row in list(rows)[:5]]
    return "\n".join([f"{missing.total()} missing and {more.total()} too many, of {wanted.total()}", *shown])


def _unpacked(query: str, value: Row) -> list[Row]:
    """Whole rows are kept as texts, because aggregates keep plain values; who keeps objects writes them as they are."""
    if query == "q9":
        return [json.loads(value["won"])]
    if query == "q18":
        return [{**_object(value["bid"]), "bidder": value["bidder"], "auction": value["auction"]}]
    if query == "q19":
        bids = enumerate(value["bids"], start=1)
        return [{"auction": value["auction"], **_object(bid), "place": place} for place, bid in bids]
    return [value]


def _object(value: str | Row) -> Row:
    return dict(json.loads(value)) if isinstance(value, str) else value


def _plain(row: Mapping[str, Any]) -> Row:
    """An integer where a double is one: JSON has both."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in row.items()
    }
