from __future__ import annotations

import random

import pytest

from airflow_provider.errors import ProcessError
from airflow_provider.streaming import StatefulJob, ValueState, stream
from airflow_provider.streaming import functions as F
from airflow_provider.testing import InputRecord, check_batching
from tests.unit.testing.jobs import LARGEST, ORDERS, SCHEMA, TOTALS, Row, of_orders, order

CUSTOMERS = ("ann", "bob", "cara", "dan")


def random_orders(seed: int, number: int = 30) -> list[Row]:
    randomness = random.Random(seed)
    return [order(randomness.choice(CUSTOMERS), randomness.choice([0.0, 0.1, 0.2, 1.5, 7.0])) for _ in range(number)]


def batches_seen(key: str, rows: list[Row], state: ValueState) -> list[Row]:
    """Wrong: counts its calls, which is how many micro-batches there were."""
    state.update((state.get() or 0) + 1)
    return [{"calls": state.get()}]


def test_aggregates_do_not_depend_on_micro_batches() -> None:
    job = of_orders(
        ORDERS.aggregate(F.count().alias("n"), F.sum("amount").alias("sum"), F.avg("amount"), F.last("amount"))
    )

    check_batching(job, random_orders(1), cuts=5, partitions=2)


def test_function_that_takes_rows_one_by_one_does_not_depend_on_micro_batches() -> None:
    records = [*random_orders(2), order("ann", -1.0), "no JSON", order(None, 1.0), *random_orders(3, 10)]

    check_batching(LARGEST.on_error("dead_letter", topic="bad"), records, cuts=5)


def test_job_that_counts_its_calls_is_found_and_named() -> None:
    job = of_orders(ORDERS.process(batches_seen, ["amount"]))

    with pytest.raises(AssertionError) as caught:
        check_batching(job, [order("ann", 1.0)] * 5, seed=7)

    text = str(caught.value)
    assert "The result depends on where micro-batches end (seed 7, cut " in text
    assert "state of 'ann': one record a micro-batch gives 5, these give " in text
    assert "last output of 'ann': one record a micro-batch gives {'customer': 'ann', 'calls': 5}, these give {" in text


def test_all_sinks_and_stores_of_a_job_are_compared() -> None:
    orders = stream("orders", schema=SCHEMA, key="customer")
    right = orders.group_by("customer").aggregate(F.count().alias("n"), name="right")
    wrong = orders.group_by("customer").process(batches_seen, ["amount"], name="wrong")
    job = StatefulJob("two", orders.sink("rows"), right.sink("counts"), wrong.sink("calls"))

    with pytest.raises(AssertionError) as caught:
        check_batching(job, [order("ann", 1.0)] * 5, seed=7)

    text = str(caught.value)
    assert "state of 'ann' in 'wrong': one record a micro-batch gives 5, these give " in text
    assert "last output of 'ann' in 'calls': one record a micro-batch gives {'customer': 'ann', 'calls': 5}" in text
    assert "'right'" not in text


def test_job_without_a_store_does_not_depend_on_micro_batches() -> None:
    rows = stream("orders", schema=SCHEMA, key="customer")

    check_batching(StatefulJob("rows", rows.sink("out")), random_orders(4), cuts=3)


def test_same_seed_gives_the_same_failure() -> None:
    job = of_orders(ORDERS.process(batches_seen, ["amount"]))

    texts = []
    for _ in range(2):
        with pytest.raises(AssertionError) as caught:
            check_batching(job, [order("ann", 1.0)] * 8, seed=11)
        texts.append(str(caught.value))

    assert texts[0] == texts[1]


def test_sums_of_fractions_may_differ_in_their_last_digits() -> None:
    records = [InputRecord(order("ann", 0.1)), InputRecord(order("ann", 0.2)), InputRecord(order("ann", 0.3))]

    check_batching(TOTALS, records, seed=1, cuts=5, faults=False)


def test_error_of_the_job_is_raised_as_it_is() -> None:
    with pytest.raises(ProcessError, match="-1 is negative"):
        check_batching(LARGEST, [order("ann", -1.0)])


def test_no_records_are_no_difference() -> None:
    check_batching(TOTALS, [], cuts=2)
