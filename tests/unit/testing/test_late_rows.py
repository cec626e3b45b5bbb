"""Rows that their own partition's watermark has passed, behind internal topics: late or not wherever batches end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, Stream, session_window, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.operations.repartition import without_passed
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


def _order(number: int, at_s: int, customer: str = "ann", partition: int | None = None) -> InputRecord:
    value = {"id": f"o{number}", "customer": customer, "at": at_s * _SECOND}
    return InputRecord(value, topic="orders", key="one", partition=partition)


def _ann(country: str = "AT") -> InputRecord:
    return InputRecord({"customer": "ann", "country": country}, topic="customers", key="ann", timestamp_ms=1)


@pytest.mark.parametrize("rows", [ORDERS, JOINED], ids=["without a join", "joined"])
def test_session_that_ends_just_where_a_row_and_its_watermark_are_is_another(rows: Stream) -> None:
    job = _sessions(rows, "customer")
    records = [_order(1, 0), _order(2, 8, "bob"), _order(3, 6), _order(4, 60, "bob")]
    for cut in ([records], [[record] for record in records]):
        with JobTester(job) as tester:
            for batch in cut:
                tester.pipe_inputs(batch)
            counts = [(record.value["customer"], record.value["n"]) for record in tester.read_output("out")]
            assert counts == [("ann", 1), ("ann", 1), ("bob", 1)]


@pytest.mark.parametrize(
    "step",
    [
        lambda rows: rows.with_column("at", "early"),
        lambda rows: rows.select("country", "early AS at"),
        lambda rows: rows.select("country", "at AS on_time", "early AS at"),
    ],
)
def test_row_whose_time_a_step_behind_the_join_makes_earlier_is_judged_by_its_own_watermark(
    step: Callable[[Stream], Stream],
) -> None:
    orders = stream("orders", schema="customer STRING, at BIGINT, early BIGINT", event_time="at", watermark="2 seconds")
    job = _tumbling(step(orders.join(CUSTOMERS, on="customer")))
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    records, now = [_ann()], 0
    for _ in range(20):
        now += randomness.choice([0, 1, 3, 8])
        value = {"customer": "ann", "at": now * _SECOND, "early": max(now - randomness.choice([0, 1, 9]), 0) * _SECOND}
        records.append(InputRecord(value, topic="orders", timestamp_ms=1))
    check_batching(job, records, seed=seed, cuts=4)


def test_rows_that_wait_show_a_users_topic_nothing_of_their_watermark_once_no_windows_follow() -> None:
    waited = ORDERS.join(CUSTOMERS, on="customer", how="left", grace="4 seconds")
    counted = waited.group_by(window("at", "10 seconds"), "country").aggregate(COUNT, emit="close")
    before = StatefulJob("shop", waited.sink("joined"), counted.sink("counts"))
    with JobTester(before, partitions=2) as tester:
        tester.pipe_inputs([_ann()])
        tester.pipe_inputs([_order(1, 1, partition=1)])
        tester.pipe_inputs([_order(2, 60, partition=0), _order(3, 3, partition=0)])
        assert tester.read_output("joined") == []
        tester.restart(job=StatefulJob("shop", waited.sink("joined")))
        tester.pipe_inputs([_order(4, 70, partition=1)])
        tester.pipe_inputs([_order(5, 80, partition=0)])

        found = [record.value for record in tester.read_output("joined")]
        assert [value["id"] for value in found] == ["o1", "o3", "o2"]
        assert {name for value in found for name in value} == {"customer", "id", "at", "country", "agent"}


def test_name_of_the_column_is_no_users() -> None:
    says = "'passed__', which every row has already: it holds how far time was where the row came from"
    for made in (
        lambda: stream("orders", schema="passed__ BIGINT"),
        lambda: table("customers", schema="customer STRING, Passed__ STRING", key="customer"),
        lambda: ORDERS.with_column("passed__", "id"),
        lambda: ORDERS.select("id AS passed__"),
        lambda: ORDERS.group_by("customer").aggregate(F.count().alias("passed__")),
    ):
        with pytest.raises(ConfigurationError, match=says.replace("'passed__'", "'[Pp]assed__'")):
            made()


def test_of_a_row_its_own_column_is_left_out_alone() -> None:
    given = b'{"k":"\xc3\xa4","note":"x,\\"passed__\\":1","m":{"a":1,"passed__":5},"passed__":null,"n":1.50}'

    (_, found), unchanged, deleted = without_passed([(b"k", given), (b"k", b'{"m":{"passed__":5}}'), (b"k", None)])

    assert found == b'{"k":"\xc3\xa4","note":"x,\\"passed__\\":1","m":{"a":1,"passed__":5},"n":1.50}'
    assert (unchanged, deleted) == ((b"k", b'{"m":{"passed__":5}}'), (b"k", None))
