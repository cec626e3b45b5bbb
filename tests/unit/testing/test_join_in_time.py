"""A stream's rows meet a table with a watermark as it was at their time, whichever was read first."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, Table, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.testing import InputRecord, JobTester, check_batching

_BASE: Final = 1_700_000_000_000
_SECOND: Final = 1_000

ORDERS: Final = stream("orders", schema="id STRING, customer STRING, at BIGINT", event_time="at", watermark="5 seconds")


def customers(**given: Any) -> Table:
    return table("customers", schema="customer STRING, country STRING", key="customer", **given)


CUSTOMERS: Final = customers(watermark="5 seconds")


def enriched(of: Table = CUSTOMERS, **given: Any) -> StatefulJob:
    return StatefulJob("shop", ORDERS.join(of, on="customer", how="left", **given).sink("out"))


def order(number: int, at_s: int, name: str = "ann", partition: int = 0) -> InputRecord:
    value = {"id": f"o{number}", "customer": name, "at": _BASE + at_s * _SECOND}
    return InputRecord(value, topic="orders", partition=partition)


def customer(country: str | None, at_s: int, name: str = "ann", partition: int = 0) -> InputRecord:
    value = None if country is None else {"customer": name, "country": country}
    return InputRecord(value, topic="customers", key=name, partition=partition, timestamp_ms=_BASE + at_s * _SECOND)


def countries(tester: JobTester) -> dict[str, str | None]:
    return {record.value["id"]: record.value["country"] for record in tester.read_output()}


def test_order_waits_until_the_table_is_known_up_to_its_time() -> None:
    with JobTester(enriched()) as tester:
        tester.pipe_inputs([customer("AT", 0), order(1, 10), order(2, 60)])
        assert countries(tester) == {}
        tester.pipe_inputs([customer("DE", 10), customer("CH", 11), customer("FR", 17)])
        assert countries(tester) == {"o1": "DE"}


def test_order_meets_the_version_of_its_time_where_it_comes_out_with_a_later_version_of_its_key() -> None:
    """The time of one of the table's tasks moves between the rows of another, and with it what is kept."""
    with JobTester(enriched(), partitions=2) as tester:
        tester.pipe_inputs([customer("XX", 0, "bob"), customer("AT", 0, partition=1), order(1, 10), order(2, 60)])
        tester.pipe_inputs(
            [customer("DE", 8, partition=1), customer("FR", 12, partition=1), customer("CH", 40, partition=1)]
        )
        assert countries(tester) == {}
        tester.pipe_inputs([customer("YY", 40, "bob"), customer("US", 41, partition=1)])
        assert countries(tester) == {"o1": "DE"}


def test_order_waits_for_no_more_of_its_own_stream_than_its_watermark() -> None:
    with JobTester(enriched()) as tester:
        tester.pipe_inputs([customer("AT", 0), order(0, 6), customer("DE", 100), order(1, 10), order(2, 15)])
        assert countries(tester) == {"o0": "AT"}
        tester.pipe_input(order(3, 16))
        assert countries(tester) == {"o1": "AT"}


def test_table_without_a_record_holds_nothing_up() -> None:
    with JobTester(enriched()) as tester:
        tester.pipe_inputs([order(1, 10), order(2, 60)])
        assert countries(tester) == {"o1": None}


def test_table_that_is_silent_is_waited_for_a_minute_or_its_idle_timeout() -> None:
    for of, silent in (
        (CUSTOMERS, "2 minutes"),
        (customers(watermark="5 seconds", idle_timeout="1 second"), "1 minute"),
    ):
        with JobTester(enriched(of)) as tester:
            tester.pipe_inputs([customer("AT", 0), order(1, 10), order(2, 60)])
            assert countries(tester) == {}
            tester.advance_wall_clock(silent)
            assert countries(tester) == {"o1": "AT"}


def test_order_that_its_partition_has_passed_comes_out_at_once_and_none_is_late() -> None:
    with JobTester(enriched()) as tester:
        tester.pipe_inputs([customer("AT", 0), order(1, 60), customer("DE", 100), order(2, 10)])
        assert countries(tester) == {"o2": "AT"}
        assert tester.counts.late == 0


def test_windows_behind_it_close_by_the_least_of_both() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer")
    counted = joined.group_by("country", window("at", "10 seconds")).aggregate(F.count().alias("n"), emit="close")
    with JobTester(StatefulJob("shop", counted.sink("out"))) as tester:
        tester.pipe_inputs([customer("AT", 0), order(1, 1), order(2, 8), order(3, 60)])
        assert tester.read_output() == []
        tester.pipe_input(customer("DE", 70))
        assert [record.value["n"] for record in tester.read_output()] == [2]


@pytest.mark.parametrize("given", [{"grace": "1 minute"}, {"history": "1 minute"}], ids=["grace", "history"])
def test_watermark_of_the_table_says_how_long_is_waited(given: Mapping[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"the table has a watermark.*Leave (grace|history)= out"):
        enriched(CUSTOMERS, **given)


def test_idle_timeout_of_a_table_needs_a_watermark() -> None:
    with pytest.raises(ConfigurationError, match=r"table\(\) got idle_timeout='1 second' without watermark="):
        customers(idle_timeout="1 second")


# -- whichever was read first --------------------------------------------------------------------------------------

_PARTITIONS: Final = 2
_NAMES: Final = ("ann", "bob")
"""Each customer's changes are in one partition, as its producer would have it."""
_END_S: Final = 1_000


def _drawn(randomness: random.Random) -> dict[tuple[str, int], list[InputRecord]]:
    """By topic and partition, records that lie within the watermark; the first and the last one are there always.

    A partition without any record is waited for by nobody.
    """
    found = dict[tuple[str, int], list[InputRecord]]()
    numbers, steps = iter(range(1_000)), randomness.choice([(0, 1, 4, 30), (0, 1, 2)])
    for partition in range(_PARTITIONS):
        now, rows, changes = 0, list[InputRecord](), list[InputRecord]()
        name_of = _NAMES[partition]
        for _ in range(randomness.choice([12, 40])):
            now += randomness.choice(steps)
            at, name = max(now - randomness.choice([0, 0, 2, 5]), 0), randomness.choice(_NAMES)
            if randomness.random() < 0.5:
                rows.append(order(next(numbers), at, name, partition))
            else:
                changes.append(customer(randomness.choice(["AT", "DE", "CH", None]), at, name_of, partition))
        found["orders", partition] = [
            order(next(numbers), 0, partition=partition),
            *_within(rows),
            order(next(numbers), _END_S, partition=partition),
        ]
        found["customers", partition] = [
            customer("FR", 0, name_of, partition),
            *_within(changes),
            customer("FR", _END_S, name_of, partition),
        ]
    return found


def _within(records: Sequence[InputRecord]) -> Iterator[InputRecord]:
    """Those that are no more than the watermark behind."""
    seen = 0
    for record in records:
        at = _at(record)
        seen = max(seen, at)
        if at >= seen - 5 * _SECOND:
            yield record


def _at(record: InputRecord) -> int:
    return int(record.value["at"] if record.topic == "orders" else record.timestamp_ms or 0)


def _expected(records: Mapping[tuple[str, int], Sequence[InputRecord]]) -> dict[str, str | None]:
    """By order, the country of its time; of two changes of one moment the later one in its partition counts."""
    found = dict[str, str | None]()
    for partition in range(_PARTITIONS):
        for row in records["orders", partition][:-1]:
            changes = [
                change
                for at in range(_PARTITIONS)
                for change in records["customers", at]
                if change.key == row.value["customer"] and _at(change) <= _at(row)
            ]
            last = max(enumerate(changes), key=lambda one: (_at(one[1]), one[0]), default=None)
            value = None if last is None else last[1].value
            found[row.value["id"]] = None if value is None else value["country"]
    return found


_HAPPENS: Final[Sequence[Callable[[JobTester], None]]] = (
    JobTester.promote_standby,
    JobTester.restart,
    lambda tester: None,
)


@pytest.mark.parametrize("number", range(6))
def test_each_order_meets_the_country_of_its_time_whichever_partition_is_held(number: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    records = _drawn(randomness)
    left = {source: list(of_source) for source, of_source in records.items()}
    with JobTester(enriched(), partitions=_PARTITIONS) as tester:
        tester.pipe_inputs([of_source.pop(0) for of_source in left.values()])
        while sources := [source for source, of_source in left.items() if of_source]:
            held = randomness.choice([*sources, None])
            batch = []
            for _ in range(randomness.choice([1, 1, 2, 6])):
                source = randomness.choice([one for one in sources if one != held] or sources)
                batch += [left[source].pop(0) for _ in range(randomness.randint(1, 6)) if left[source]]
            # Those of a topic's partitions together, so that the time of one moves between the rows of another.
            tester.pipe_inputs(sorted(batch, key=lambda record: record.topic or ""))
            if randomness.random() < 0.1:
                randomness.choice(_HAPPENS)(tester)
        found = countries(tester)
    assert found == _expected(records), f"seed {seed}"


def test_it_is_the_same_wherever_batches_end() -> None:
    seed = random.SystemRandom().randrange(2**32)
    records = [record for of_source in _drawn(random.Random(seed)).values() for record in of_source]
    check_batching(enriched(), records, seed=seed, cuts=3, partitions=_PARTITIONS)
