"""The table of docs/nexmark.md: a row for each query, with Flink's published figures beside."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from tests.benchmarks.figures import Figures
from tests.nexmark.queries import QUERIES

__all__ = ["FLINK", "row_of", "with_rows"]

FLINK: Final = {
    "q0": 155.02, "q1": 157.94, "q2": 175.21, "q3": 152.12, "q4": 34.33, "q5": 22.14, "q7": 12.33, "q8": 146.14,
    "q9": 14.24, "q11": 39.7, "q13": 130.73, "q14": 161.23, "q15": 72.42, "q16": 18.65, "q17": 116.8, "q18": 53.7,
    "q19": 44.04, "q20": 18.98, "q21": 98.49, "q22": 129.96,
}  # fmt: skip
"""Thousands of events a second of a core, from the README of https://github.com/nexmark/nexmark: Flink 1.13."""

HEAD: Final = "| query | ours | Kafka Streams | ratio | Flink, published |\n|---|---|---|---|---|\n"


def row_of(query: str, ours: Sequence[Figures], theirs: Sequence[Figures]) -> str:
    """A row of medians, in thousands of records a second of a core; a dash for a side that was not measured."""
    rates = [statistics.median(run.rate_per_core for run in runs) if runs else None for runs in (ours, theirs)]
    cells = [_thousands(rate) for rate in rates]
    ratio = "-" if rates[0] is None or rates[1] is None else f"{rates[0] / rates[1]:.2f}"
    return f"| {query} | {cells[0]} | {cells[1]} | {ratio} | {FLINK[query]:.1f} |\n"


def with_rows(page: str, rows: Mapping[str, str]) -> str:
    """The page with these rows of its table in the place of those that it had, in the queries' order.

    Raises:
        ValueError: the page has no such table.
    """
    before, head, rest = page.partition(HEAD)
    if not head:
        raise ValueError(f"The page has no table that begins with {HEAD.splitlines()[0]!r}.")
    old = re.match(r"(\|.*\n)*", rest)
    lines = (old[0] if old else "").splitlines(keepends=True)
    merged = {line.split("|")[1].strip(): line for line in lines} | dict(rows)
    return before + head + "".join(merged[query] for query in QUERIES if query in merged) + rest[sum(map(len, lines)) :]


def _thousands(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1e3:.1f}"
