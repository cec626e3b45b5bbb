"""The table of the page, and events that are made piece by piece."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.figures import Figures
from tests.benchmarks.nexmark_sides import THEIRS, parts_of
from tests.benchmarks.nexmark_table import FLINK, HEAD, row_of, with_rows
from tests.nexmark.generator import Model
from tests.nexmark.queries import QUERIES

PAGE = Path(__file__).parents[2] / "docs" / "nexmark.md"


def figures(per_core: float) -> Figures:
    return Figures(records=1_000_000, seconds=1.0, cpu_seconds=1_000_000 / per_core)


def test_row_has_the_medians_and_their_ratio() -> None:
    ours, theirs = map(figures, (10_000, 300_000, 200_000)), [figures(100_000)]

    assert row_of("q0", list(ours), theirs) == "| q0 | 200.0 | 100.0 | 2.00 | 155.0 |\n"
    assert row_of("q4", [figures(1_000)], []) == "| q4 | 1.0 | - | - | 34.3 |\n"


def test_rows_take_the_place_of_those_of_their_queries_and_the_rest_of_the_page_stays() -> None:
    page = f"Before.\n\n{HEAD}| q0 | old |\n| q5 | stays |\n\nAfter.\n"

    assert with_rows(page, {"q3": "| q3 | new |\n", "q0": "| q0 | new |\n"}) == (
        f"Before.\n\n{HEAD}| q0 | new |\n| q3 | new |\n| q5 | stays |\n\nAfter.\n"
    )
    with pytest.raises(ValueError, match="no table"):
        with_rows("A page.\n", {})


def test_page_has_a_row_for_each_query_with_what_is_published_for_it() -> None:
    page = PAGE.read_text()

    assert list(FLINK) == list(QUERIES)
    assert with_rows(page, {}) == page
    rows = page.partition(HEAD)[2].splitlines()[: len(QUERIES)]
    assert [(row.split(" | ")[0], row.split(" | ")[-1]) for row in rows] == [
        (f"| {query}", f"{published:.1f} |") for query, published in FLINK.items()
    ]
    assert all(row.split(" | ")[2] == "-" for row in rows if row.split(" | ")[0][2:] not in THEIRS)


def test_parts_of_the_events_have_their_numbers_and_times_in_turn() -> None:
    model = Model(events=0, seed=1, delayed=0.0)
    parts = list(parts_of(model, [100, 150, 250]))
    whole = Model(events=250, seed=1, delayed=0.0).stream()

    assert list(map(len, parts)) == [100, 50, 100]
    flat = [event for part in parts for event in part]
    assert [(event.topic, event.at_ms) for event in flat] == [(event.topic, event.at_ms) for event in whole]
    assert [event.key for event in flat if event.topic != "bids"] == [e.key for e in whole if e.topic != "bids"]
