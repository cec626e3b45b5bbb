"""The same records through Kafka Streams' windows and through ours: what is the same, and each difference there is.

Kafka Streams runs in its own TopologyTestDriver: one partition, no broker.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_provider.streaming import StatefulJob, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.testing import JobTester
from tests.integration.testing.kafka_streams_answers import kafka_streams_answers

pytestmark = pytest.mark.long

BEGIN: Final = 1_000_000
"""Of random times, ms: Kafka Streams has no windows that begin before 1970."""

Row = tuple[str, int, int]
"""Key, value, event time."""

Closed = list[tuple[str, int, int, int, int]]
"""Key, start and end of a window, which of a session is the time of its last row, and the rows' number and sum."""


def by_kafka_streams(cases: Sequence[Mapping[str, Any]], folder: Path) -> list[tuple[Closed, int]]:
    """Of each case, the windows in the order in which they closed, and how many records were dropped."""
    suppressing = [{"emit": "suppress", **case} for case in cases]
    return [
        ([(key, start, end, n, total) for key, start, end, n, total in answer["windows"]], answer["dropped"])
        for answer in kafka_streams_answers("Windows.java", suppressing, folder)
    ]


def by_us(case: Mapping[str, Any]) -> tuple[Closed, int]:
    """The same; and how many records were late."""
    gap = case.get("gap")
    if gap is None:
        windows: Any = window("at", f"{case['size']} milliseconds", f"{case['slide']} milliseconds")
    else:
        windows = session_window("at", f"{gap} milliseconds")
    job = StatefulJob(
        "windows",
        stream(
            "in",
            schema="k STRING, v BIGINT, at BIGINT",
            key="k",
            event_time="at",
            watermark=f"{case['grace']} milliseconds",
        )
        .group_by("k", windows)
        .aggregate(F.count().alias("n"), F.sum("v").alias("total"), emit="close")
        .sink("out"),
    )
    rows = [{"k": key, "v": value, "at": at} for key, value, at in case["rows"]]
    with JobTester(job) as tester:
        for begin in range(0, len(rows), 7):
            tester.pipe_inputs(rows[begin : begin + 7])
        closed = [record.value for record in tester.read_output()]
        late = tester.counts.late
    found = [
        (row["k"], ms(row["window"]["start"]), ms(row["window"]["end"]) - (gap or 0), row["n"], row["total"])
        for row in closed
    ]
    return found, late


def ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def random_rows(choose: random.Random, lateness: Sequence[int]) -> list[Row]:
    """Times that go on and come late, and one behind them all that closes what is open."""
    now, rows = BEGIN, list[Row]()
    for _ in range(250):
        now += choose.choice([0, 1, 2, 3, 10])
        rows.append((choose.choice("abc"), choose.randrange(100), now - choose.choice(lateness)))
    return [*rows, ("z", 0, now + 10_000)]


def dropped_windows(case: Mapping[str, Any]) -> int:
    """For how many of their windows rows came too late."""
    size, slide, seen, found = case["size"], case["slide"], 0, 0
    for _, _, at in case["rows"]:
        seen = max(seen, at)
        starts = range(at // slide * slide, at - size, -slide)
        found += sum(start + size <= seen - case["grace"] for start in starts)
    return found


def test_windows_are_those_of_kafka_streams(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    late = [0, 0, 0, 1, 5, 9, 20, 40]
    cases: list[dict[str, Any]] = [
        {"size": 10, "slide": 10, "grace": 0, "rows": random_rows(choose, late)},
        {"size": 10, "slide": 10, "grace": 15, "rows": random_rows(choose, late)},
        {"size": 10, "slide": 5, "grace": 3, "rows": random_rows(choose, late)},
        {"size": 12, "slide": 5, "grace": 7, "rows": random_rows(choose, late)},
        # Nothing later than what is waited for: the rest is among the differences.
        {"gap": 3, "grace": 20, "rows": random_rows(choose, [0, 0, 1, 7, 20])},
        {"gap": 9, "grace": 4, "rows": random_rows(choose, [0, 0, 1, 4])},
        {"gap": 5, "grace": 1, "rows": random_rows(choose, [0, 1])},
    ]
    answers = by_kafka_streams(cases, tmp_path)

    for case, (closed, dropped) in zip(cases, answers, strict=True):
        ours, late_rows = by_us(case)
        assert sorted(ours) == sorted(closed)
        assert len({row[:2] for row in ours}) == len(ours)
        if "size" in case:
            assert dropped == dropped_windows(case)
            assert late_rows == dropped or case["slide"] < case["size"]
            assert late_rows <= dropped
        else:
            assert (late_rows, dropped) == (0, 0)


Z: Final = ("z", 0, 1_000)
"""Closes all."""

LATE_IN_OPEN: Final = [("a", 1, 0), ("a", 1, 8), ("a", 1, 16), ("b", 1, 24), ("a", 1, 5), Z]
AT_THE_LIMIT: Final = [("b", 1, 10), ("a", 1, 0), Z]
TOUCHES_CLOSED: Final = [("a", 1, 0), ("b", 1, 11), ("a", 1, 9), Z]
JUMP: Final = [("a", 1, 0), ("b", 1, 14), ("a", 2, 9), Z]

DIFFERENCES: Final[dict[str, tuple[dict[str, Any], tuple[Closed, int], tuple[Closed, int]]]] = {
    "a late row joins a session that is open": (
        {"gap": 10, "grace": 0, "rows": LATE_IN_OPEN},
        ([("b", 24, 24, 1, 1), ("a", 0, 16, 4, 4)], 0),
        ([("a", 0, 16, 3, 3), ("b", 24, 24, 1, 1)], 1),
    ),
    "a row whose own session ends at the watermark": (
        {"gap": 10, "grace": 0, "rows": AT_THE_LIMIT},
        ([("a", 0, 0, 1, 1), ("b", 10, 10, 1, 1)], 0),
        ([("b", 10, 10, 1, 1)], 1),
    ),
    "a row exactly the gap after the last, where none is waited for": (
        {"gap": 10, "grace": 0, "rows": [("a", 1, 0), ("a", 1, 10), Z]},
        ([("a", 0, 10, 2, 2)], 0),
        ([("a", 0, 0, 1, 1), ("a", 10, 10, 1, 1)], 0),
    ),
    "a row that touches a closed session, with a longer retention": (
        {"gap": 10, "grace": 0, "retention": 1_000, "rows": TOUCHES_CLOSED},
        ([("a", 0, 0, 1, 1), ("a", 0, 9, 2, 2), ("b", 11, 11, 1, 1)], 0),
        ([("a", 0, 0, 1, 1), ("a", 9, 9, 1, 1), ("b", 11, 11, 1, 1)], 0),
    ),
    "a jump beyond window and grace, with EmitStrategy.onWindowClose": (
        {"size": 10, "slide": 10, "grace": 5, "emit": "close", "rows": JUMP},
        ([], 0),
        ([("a", 0, 10, 2, 3), ("b", 10, 20, 1, 1)], 0),
    ),
    "a window that would begin before 1970": (
        {"size": 10, "slide": 5, "grace": 0, "rows": [("a", 1, 1), Z]},
        ([("a", 0, 10, 1, 1)], 0),
        ([("a", -5, 5, 1, 1), ("a", 0, 10, 1, 1)], 0),
    ),
}

SAME: Final[dict[str, dict[str, Any]]] = {
    "a session goes on to the gap": {"gap": 10, "grace": 1, "rows": [("a", 1, 0), ("a", 1, 10), ("a", 1, 20), Z]},
    "a row that touches a closed session": {"gap": 10, "grace": 0, "rows": TOUCHES_CLOSED},
    "a jump beyond window and grace": {"size": 10, "slide": 10, "grace": 5, "rows": JUMP},
}


def test_differences_from_kafka_streams_are_those_that_are_written_down(tmp_path: Path) -> None:
    """docs/semantics.md has a line for each."""
    found = by_kafka_streams([*(case for case, _, _ in DIFFERENCES.values()), *SAME.values()], tmp_path)

    for (name, (case, theirs, ours)), answer in zip(DIFFERENCES.items(), found, strict=False):
        assert (sorted(answer[0]), answer[1]) == (sorted(theirs[0]), theirs[1]), name
        closed, late = by_us(case)
        assert (sorted(closed), late) == (sorted(ours[0]), ours[1]), name
    for (name, case), answer in zip(SAME.items(), found[len(DIFFERENCES) :], strict=True):
        closed, late = by_us(case)
        assert (sorted(closed), late) == (sorted(answer[0]), answer[1]), name
