"""Rows that their own partition's watermark has passed, behind internal topics: late or not wherever batches end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from airflow_provider.streaming import StatefulJob, Stream, session_window, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.testing import InputRecord, JobTester, check_batching

_SECOND: Final = 1_000
_BEGIN_MS: Final = 1_700_000_000_000
ORDERS: Final = stream("orders", schema="id STRING, customer STRING, at BIGINT", event_time="at", watermark="2 seconds")
_SCHEMA: Final = "customer STRING, country STRING, agent STRING"
CUSTOMERS: Final = table("customers", schema=_SCHEMA, key="customer")
AGENTS: Final = table("agents", schema="agent STRING, office STRING", key="agent")
JOINED: Final = ORDERS.join(CUSTOMERS, on="customer", how="left")
WAITED: Final = ORDERS.join(CUSTOMERS, on="customer", grace="4 seconds")
COUNT: Final = F.count().alias("n")


def _tumbling(rows: Stream, by: str = "country") -> StatefulJob:
    return StatefulJob("shop", rows.group_by(window("at", "10 seconds"), by).aggregate(COUNT, emit="close").sink("out"))


def _hopping(rows: Stream, by: str = "country") -> StatefulJob:
    windows = window("at", "20 seconds", "5 seconds")
    return StatefulJob("shop", rows.group_by(windows, by).aggregate(COUNT, emit="close").sink("out"))


def _sessions(rows: Stream, by: str = "country") -> StatefulJob:
    windows = session_window("at", "6 seconds")
    return StatefulJob("shop", rows.group_by(windows, by).aggregate(COUNT, emit="close").sink("out"))


def _once(rows: Stream, by: str = "country") -> StatefulJob:
    return StatefulJob("shop", rows.drop_duplicates(by, within="3 seconds").sink("out"))


JOBS: Final[Mapping[str, Callable[[], StatefulJob]]] = {
    "tumbling": lambda: _tumbling(JOINED),
    "tumbling, by the key of the join": lambda: _tumbling(JOINED, "customer"),
    "hopping": lambda: _hopping(JOINED),
    "hopping, by the key of the join": lambda: _hopping(JOINED, "customer"),
    "sessions": lambda: _sessions(JOINED),
    "sessions, by the key of the join": lambda: _sessions(JOINED, "customer"),
    "sessions without a join": lambda: _sessions(ORDERS, "customer"),
    "duplicates": lambda: _once(JOINED),
    "behind steps": lambda: _hopping(JOINED.filter("id <> 'o3'", name="three").select("country", "at")),
    "behind steps of Spark's": lambda: _hopping(JOINED.select("reverse(country) AS country", "at")),
    "behind two joins": lambda: _hopping(JOINED.join(AGENTS, on="agent", how="left"), "office"),
    "behind a join that waits": lambda: _tumbling(WAITED),
    "sessions behind a join that waits": lambda: _sessions(WAITED),
    "behind a table that is everywhere": lambda: _hopping(
        ORDERS.join(table("customers", schema=_SCHEMA, key="customer", broadcast=True), on="customer")
    ),
}


def _records(randomness: random.Random) -> list[InputRecord]:
    """The tables first, then orders of which many are behind the watermark."""
    found = [
        InputRecord(
            {"customer": name, "country": country, "agent": name[0]}, topic="customers", key=name, timestamp_ms=1
        )
        for name, country in (("ann", "AT"), ("bob", "DE"), ("cyd", "AT"))
    ]
    found += [
        InputRecord({"agent": name, "office": office}, topic="agents", key=name, timestamp_ms=1)
        for name, office in (("a", "east"), ("b", "west"), ("c", "east"))
    ]
    now = _BEGIN_MS
    for number in range(30):
        now += randomness.choice([0, 1, 3, 8]) * _SECOND
        at = now - randomness.choice([0, 0, 0, 1, 4, 7, 12, 25]) * _SECOND
        name = randomness.choice(["ann", "bob", "cyd"])
        value = {"id": f"o{number % 5}", "customer": name, "at": at}
        key = randomness.choice(["one", "other", "third"])
        found.append(InputRecord(value, topic="orders", key=key, timestamp_ms=at))
    return found


_IN_ORDER: Final = ("sessions", "duplicates")
"""What such a row meets in these depends on the order in which two partitions' rows were written, too."""
_CASES: Final = [
    (name, partitions) for name in JOBS for partitions in (1, 2) if partitions == 1 or not name.startswith(_IN_ORDER)
]


@pytest.mark.parametrize(("name", "partitions"), _CASES)
def test_late_is_the_same_wherever_batches_end(name: str, partitions: int) -> None:
    job = JOBS[name]()
    seed = random.SystemRandom().randrange(2**32)
    records = [
        record
        for record in _records(random.Random(seed))
        if record.topic in {stage.source_topic for stage in job.stages}
    ]
    check_batching(job, records, seed=seed, cuts=4, partitions=partitions)


def test_users_topic_has_the_columns_alone_beside_windows_that_count_by_the_rows_own_time() -> None:
    windows = window("at", "10 seconds")
    counted = JOINED.group_by(windows, "country").aggregate(COUNT, emit="close")
    with JobTester(StatefulJob("shop", counted.sink("counts"), JOINED.sink("joined"))) as tester:
        late = [InputRecord({"id": "o1", "customer": "ann", "at": at}, topic="orders") for at in (0, 60_000, 3_000)]
        tester.pipe_inputs([InputRecord({"customer": "ann", "country": "AT"}, topic="customers", key="ann"), *late])

        columns = {"customer", "id", "at", "country", "agent"}
        assert [record.value.keys() for record in tester.read_output("joined")] == [columns] * 3
        assert tester.counts.late == 1
