"""The same records through Kafka Streams' joins and through ours: what is the same, and each difference there is.

Kafka Streams runs in its own TopologyTestDriver: one partition, no broker.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_provider.streaming import StatefulJob, stream, table
from airflow_provider.testing import InputRecord, JobTester
from tests.integration.testing.kafka_streams_answers import kafka_streams_answers

pytestmark = pytest.mark.long

BEGIN: Final = 1_000_000

Row = tuple[int, str | None, int | None, int]
"""Side (0 left, 1 right), key, value (None deletes the table's row), time."""

Joined = list[tuple[str | None, int | None, int | None]]
"""Key, value of the left side and of the right one."""


def by_kafka_streams(cases: Sequence[Mapping[str, Any]], folder: Path) -> list[tuple[Joined, int]]:
    """Of each case, the rows in the order in which they came out, and how many records were dropped."""
    return [
        ([(key, left, right) for key, left, right in answer["rows"]], answer["dropped"])
        for answer in kafka_streams_answers("Joins.java", cases, folder)
    ]


def by_us(case: Mapping[str, Any]) -> tuple[Joined, int]:
    """The same; and how many records were late."""
    times: dict[str, Any] = {
        name: f"{case[name]} milliseconds" for name in ("history", "grace", "before", "after") if name in case
    }
    delay = times.pop("grace", "0 milliseconds") if "before" in case else None
    left = stream("left", schema="k STRING, l BIGINT", watermark=delay)
    right: Any = (
        table("right", schema="k STRING, r BIGINT", key="k")
        if delay is None
        else stream("right", schema="k STRING, r BIGINT", watermark=delay)
    )
    if case.get("as_needed"):
        del times["history"]
    job = StatefulJob("joins", left.join(right, on="k", how=case["how"], **times).sink("out"))
    with JobTester(job) as tester:
        # One by one: how far a stream is, is told behind the rows of a micro-batch.
        for row in case["rows"]:
            tester.pipe_input(record(row))
        found = [(value["k"], value["l"], value["r"]) for value in (out.value for out in tester.read_output())]
        return found, tester.counts.late


def record(row: Row) -> InputRecord:
    side, key, number, at = row
    value = None if number is None else {"k": key, "r" if side else "l": number}
    return InputRecord(value, topic="right" if side else "left", key=key, timestamp_ms=at)


def random_rows(choose: random.Random, *, lateness: Sequence[int], deletes: bool) -> list[Row]:
    """Times of both sides that go on together and come late, and two behind them all that let out what is kept."""
    now, rows = BEGIN, list[Row]()
    for number in range(120):
        now += choose.choice([0, 1, 2, 3, 10])
        side = choose.choice([0, 1])
        value = None if side and deletes and choose.random() < 0.25 else number
        rows.append((side, choose.choice("abc"), value, now - choose.choice(lateness)))
    return [*rows, (1, "z", 0, now + 10_000), (0, "z", 0, now + 10_001)]


def test_joins_are_those_of_kafka_streams(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    late = [0, 0, 1, 5, 9, 20]
    with_table = random_rows(choose, lateness=late, deletes=True)
    with_stream = random_rows(choose, lateness=late, deletes=False)
    # Kafka Streams lets a row out alone at once that comes later than its interval, and again with its partner.
    less_late = random_rows(choose, lateness=[0, 0, 1, 2, 4], deletes=False)
    cases: list[dict[str, Any]] = [
        {"how": "inner", "rows": random_rows(choose, lateness=[0], deletes=True)},
        {"how": "left", "history": 100_000, "rows": with_table},
        {"how": "inner", "history": 100_000, "grace": 7, "rows": with_table},
        {"how": "left", "history": 100_000, "grace": 30, "rows": with_table},
        # Nothing is further behind than the grace, so what is needed is kept.
        {"how": "left", "history": 100_000, "grace": 30, "as_needed": True, "rows": with_table},
        {"how": "inner", "before": 10, "after": 10, "grace": 25, "rows": with_stream},
        {"how": "left", "before": 0, "after": 15, "grace": 25, "rows": less_late},
        {"how": "outer", "before": 20, "after": 4, "grace": 25, "rows": less_late},
    ]
    answers = by_kafka_streams(cases, tmp_path)

    for case, (joined, dropped) in zip(cases, answers, strict=True):
        ours, late_rows = by_us(case)
        assert sorted(ours, key=str) == sorted(joined, key=str), case
        if "before" not in case:
            # In one order, of each key.
            assert sorted(ours, key=itemgetter(0)) == sorted(joined, key=itemgetter(0)), case
        assert (late_rows, dropped) == (0, 0)


OLDER_ROW: Final[list[Row]] = [(1, "a", 1, 20), (1, "a", 2, 10), (0, "a", 3, 30)]
READ_AHEAD: Final[list[Row]] = [
    *((1, "a", number, number * 60_000) for number in range(3)),
    (0, "a", 4, 59_999),
    (0, "z", 0, 60_009),
]
WAITS: Final[list[Row]] = [
    (1, "a", 1, 0),
    (0, "a", 2, 100),
    (1, "a", 3, 90),
    (1, "b", 4, 500),
    (0, "b", 5, 109),
    (0, "b", 6, 110),
]
BEHIND: Final[list[Row]] = [(1, "a", 1, 0), (1, "a", 2, 80), *((0, "a", t, t) for t in (100, 89, 79, 90))]
ONE_AHEAD: Final[list[Row]] = [(1, "x", 1, 500), (0, "a", 2, 0), (1, "a", 3, 5), (0, "x", 4, 600), (1, "x", 5, 600)]
OVER: Final[list[Row]] = [(0, "z", 1, 100), (1, "z", 2, 100), (0, "a", 3, 85), (0, "z", 4, 200), (1, "z", 5, 200)]
NULL_KEY: Final[list[Row]] = [(0, None, 1, 0), (1, None, 2, 1), (0, "a", 3, 1)]

DIFFERENCES: Final[dict[str, tuple[dict[str, Any], Joined, Joined]]] = {
    "a table's older record": ({"how": "inner", "rows": OLDER_ROW}, [("a", 3, 2)], [("a", 3, 1)]),
    "a table that is read further ahead than its retention": (
        {"how": "left", "history": 1_000, "grace": 10, "as_needed": True, "rows": READ_AHEAD},
        [("a", 4, None)],
        [("a", 4, 0)],
    ),
    "a row that its own stream has passed: its partner comes out alone, and there again with it": (
        {"how": "left", "before": 10, "after": 10, "grace": 0, "rows": ONE_AHEAD},
        [("a", 2, None), ("a", 2, 3), ("x", 4, 5)],
        [("a", 2, None), ("x", 4, 5)],
    ),
    "a row that is over when it comes": (
        {"how": "left", "before": 10, "after": 10, "grace": 0, "rows": OVER},
        [("z", 1, 2), ("a", 3, None), ("z", 4, 5)],
        [("z", 1, 2), ("z", 4, 5)],
    ),
}

SAME: Final[dict[str, dict[str, Any]]] = {
    "a row waits until the stream has passed it by the grace, and the table lets nothing out": {
        "how": "left",
        "history": 1_000,
        "grace": 10,
        "rows": WAITS,
    },
    "a row that is further behind is joined at once": {"how": "left", "history": 1_000, "grace": 10, "rows": BEHIND},
    "a null key of a stream with a table": {"how": "left", "rows": NULL_KEY[:1]},
    "null keys of two streams": {"how": "outer", "before": 10, "after": 10, "grace": 0, "rows": NULL_KEY},
    "null keys of two streams, inner": {"how": "inner", "before": 10, "after": 10, "grace": 0, "rows": NULL_KEY},
}


def test_differences_from_kafka_streams_are_those_that_are_written_down(tmp_path: Path) -> None:
    """docs/semantics.md has a line for each."""
    found = by_kafka_streams([*(case for case, _, _ in DIFFERENCES.values()), *SAME.values()], tmp_path)

    for (name, (case, theirs, ours)), answer in zip(DIFFERENCES.items(), found, strict=False):
        assert answer[0] == theirs, name
        assert by_us(case)[0] == ours, name
    for (name, case), answer in zip(SAME.items(), found[len(DIFFERENCES) :], strict=True):
        assert by_us(case)[0] == answer[0], name
