"""A job is changed while its state stays: what goes on is right, and what cannot go on is refused."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.testing import InputRecord, JobTester
from tests.unit.testing.jobs import LARGEST, ORDERS, SCHEMA, largest, of_orders, order

COUNT, TOTAL, GREATEST, LAST = (
    F.count().alias("n"),
    F.sum("amount").alias("total"),
    F.max("amount").alias("greatest"),
    F.last("amount").alias("last"),
)
BEFORE = of_orders(ORDERS.aggregate(COUNT, TOTAL, LAST))


@pytest.mark.parametrize("store", ["kept", "empty"])
def test_added_aggregate_starts_empty_and_the_others_go_on(store: Any) -> None:
    with JobTester(BEFORE) as tester:
        tester.pipe_inputs([order("ann", 100.0), order("bob", 7.0)])

        tester.restart(store, job=of_orders(ORDERS.aggregate(COUNT, TOTAL, GREATEST, LAST)))

        assert tester.state("ann") == {"n": 1, "total": 100.0, "greatest": None, "last": 100.0}
        tester.pipe_input(order("ann", 4.0))
        assert tester.state("ann") == {"n": 2, "total": 104.0, "greatest": 4.0, "last": 4.0}
        assert tester.read_output()[-1].value == {"customer": "ann", "n": 2, "total": 104.0, "greatest": 4.0, "last": 4}
        assert tester.state("bob") == {"n": 1, "total": 7.0, "greatest": None, "last": 7.0}


def test_rows_of_both_versions_are_read_in_one_micro_batch() -> None:
    with JobTester(BEFORE) as tester:
        tester.pipe_inputs([order("ann", 1.0), order("bob", 2.0), order("cara", 3.0)])
        tester.restart(job=of_orders(ORDERS.aggregate(GREATEST, TOTAL, COUNT)))
        tester.pipe_input(order("bob", 5.0))

        tester.pipe_inputs([order("ann", 10.0), order("bob", 1.0), order("cara", 30.0), order("dan", 4.0)])

        assert tester.states() == {
            "ann": {"greatest": 10.0, "total": 11.0, "n": 2},
            "bob": {"greatest": 5.0, "total": 8.0, "n": 3},
            "cara": {"greatest": 30.0, "total": 33.0, "n": 2},
            "dan": {"greatest": 4.0, "total": 4.0, "n": 1},
        }


def test_texts_of_older_rows_are_found_beside_those_of_newer_ones() -> None:
    grouped = stream("orders", schema="customer STRING, note STRING, place STRING", key="customer").group_by("customer")
    notes, places = F.max("note").alias("note"), F.last("place").alias("place")
    with JobTester(of_orders(grouped.aggregate(notes, COUNT))) as tester:
        tester.pipe_inputs([{"customer": "ann", "note": "ä"}, {"customer": "bob"}])
        tester.restart(job=of_orders(grouped.aggregate(places, COUNT, notes)))

        tester.pipe_inputs([{"customer": "ann", "place": "Ulm"}, {"customer": "bob", "note": "b"}])
        tester.pipe_inputs([{"customer": "ann", "note": "a"}])

        assert tester.states() == {
            "ann": {"place": None, "n": 3, "note": "ä"},
            "bob": {"place": None, "n": 2, "note": "b"},
        }


def test_first_value_of_an_added_aggregate_is_the_first_since_then() -> None:
    first = F.first("amount").alias("first")
    with JobTester(BEFORE) as tester:
        tester.pipe_input(order("ann", 1.0))
        tester.restart(job=of_orders(ORDERS.aggregate(COUNT, first)))
        assert tester.state("ann") == {"n": 1, "first": None}

        tester.pipe_input(order("ann", 2.0))
        tester.pipe_input(order("ann", 3.0))

        assert tester.state("ann") == {"n": 3, "first": 2.0}


def test_added_count_begins_at_zero() -> None:
    with JobTester(of_orders(ORDERS.aggregate(TOTAL))) as tester:
        tester.pipe_input(order("ann", 1.0))
        tester.restart(job=of_orders(ORDERS.aggregate(TOTAL, COUNT)))

        assert tester.state("ann") == {"total": 1.0, "n": 0}


@pytest.mark.parametrize("disk", ["kept", "empty"])
def test_store_of_another_name_begins_at_the_start_of_the_source_and_the_former_one_goes_on(disk: Any) -> None:
    other = of_orders(ORDERS.aggregate(COUNT, TOTAL, LAST), store="totals")
    with JobTester(BEFORE) as tester:
        tester.pipe_inputs([order("ann", 1.0), order("ann", 2.0)])

        tester.restart(disk, job=other)
        tester.pipe_input(order("ann", 4.0))
        assert tester.state("ann") == {"n": 3, "total": 7.0, "last": 4.0}

        tester.restart(disk, job=BEFORE)
        tester.pipe_input(order("ann", 8.0))
        assert tester.state("ann") == {"n": 4, "total": 15.0, "last": 8.0}


def test_refused_change_of_a_job_of_sinks_begins_empty_under_the_name_that_the_error_asks_for() -> None:
    orders = stream("orders", schema="customer STRING, amount DOUBLE", key="customer").group_by("customer")
    before = StatefulJob("k", orders.aggregate(F.count().alias("n")).sink("per-c"))
    changed = F.max("amount").alias("n")
    with JobTester(before) as tester:
        tester.pipe_input(order("ann", 1.0))
        with pytest.raises(ConfigurationError, match=r"name= of its aggregate\(\)"):
            tester.restart(job=StatefulJob("k", orders.aggregate(changed).sink("per-c")))

        tester.restart(job=StatefulJob("k", orders.aggregate(changed, name="fresh").sink("per-c")))

        tester.pipe_input(order("ann", 4.0))
        assert tester.state("ann") == {"n": 4.0}


def test_aggregate_that_is_removed_and_added_again_starts_empty_for_every_key() -> None:
    with JobTester(BEFORE) as tester:
        tester.pipe_inputs([order("ann", 1.0), order("bob", 2.0)])
        tester.restart(job=of_orders(ORDERS.aggregate(COUNT)))
        tester.pipe_input(order("bob", 2.0))
        tester.restart(job=BEFORE)

        tester.pipe_inputs([order("ann", 10.0), order("bob", 20.0)])

        assert tester.states() == {
            "ann": {"n": 2, "total": 10.0, "last": 10.0},
            "bob": {"n": 3, "total": 20.0, "last": 20.0},
        }


def test_job_that_goes_back_finds_all_that_it_kept_itself() -> None:
    with JobTester(BEFORE) as tester:
        tester.pipe_inputs([order("ann", 1.0), order("bob", 2.0)])
        tester.restart(job=of_orders(ORDERS.aggregate(COUNT, TOTAL, GREATEST, LAST)))
        tester.pipe_input(order("bob", 5.0))

        tester.restart("empty", job=BEFORE)
        tester.pipe_inputs([order("ann", 1.0), order("bob", 1.0)])

        assert tester.states() == {
            "ann": {"n": 2, "total": 2.0, "last": 1.0},
            "bob": {"n": 3, "total": 8.0, "last": 1.0},
        }


def test_promoted_standby_reads_rows_of_every_version() -> None:
    with JobTester(BEFORE, partitions=2) as tester:
        tester.pipe_inputs([order(name, 1.0) for name in ("ann", "bob", "cara")])
        tester.restart(job=of_orders(ORDERS.aggregate(TOTAL, COUNT, GREATEST)))
        tester.pipe_input(order("ann", 5.0))

        tester.promote_standby()
        tester.pipe_inputs([order(name, 2.0) for name in ("ann", "bob", "cara")])

        assert tester.state("ann") == {"total": 8.0, "n": 3, "greatest": 5.0}
        assert tester.state("bob") == {"total": 3.0, "n": 2, "greatest": 2.0}


OTHER_TYPE = stream("orders", schema="customer STRING, amount BIGINT", key="customer").group_by("customer")
OTHER_KEY = stream("orders", schema="customer STRING, amount DOUBLE, country STRING")
ELSEWHERE = stream("orders-2", schema=SCHEMA, key="customer").group_by("customer")
REFUSED: dict[str, tuple[StatefulJob, StatefulJob, str]] = {
    "another-function": (
        BEFORE,
        of_orders(ORDERS.aggregate(COUNT, F.mean("amount").alias("total"), LAST)),
        r"the aggregate 'total': sum\(amount\) of type double became mean\(amount\) of type double",
    ),
    "names-are-swapped": (
        BEFORE,
        of_orders(ORDERS.aggregate(F.sum("amount").alias("n"), F.count().alias("total"), LAST)),
        r"'n': count\(\) of type bigint became sum.*'total': sum.* became count",
    ),
    "another-type": (
        BEFORE,
        of_orders(OTHER_TYPE.aggregate(COUNT, TOTAL)),
        r"of type double became sum\(amount\) of type bigint",
    ),
    "nulls-skipped": (
        BEFORE,
        of_orders(ORDERS.aggregate(F.last("amount", ignorenulls=True).alias("last"))),
        r"became last\(amount, ignorenulls=True\)",
    ),
    "another-key": (
        of_orders(OTHER_KEY.group_by("customer", trust_partitioning=True).aggregate(COUNT)),
        of_orders(OTHER_KEY.group_by("country", trust_partitioning=True).aggregate(COUNT)),
        r"group_by\('customer'\) of type string became group_by\('country'\)",
    ),
    "another-topic": (BEFORE, of_orders(ELSEWHERE.aggregate(COUNT, TOTAL, LAST)), "'orders' became"),
    "another-version-of-a-function": (
        LARGEST,
        of_orders(ORDERS.process(largest, ["amount"], version=2)),
        r"process\(version=1\) became version=2",
    ),
    "aggregates-become-a-function": (BEFORE, LARGEST, r"aggregate\(\) became process\(\)"),
    "a-function-becomes-aggregates": (LARGEST, BEFORE, r"process\(\) became aggregate\(\)"),
}


@pytest.mark.parametrize(("before", "after", "what"), REFUSED.values(), ids=REFUSED)
def test_job_that_would_misread_its_state_is_refused_before_it_touches_a_row(
    before: StatefulJob, after: StatefulJob, what: str
) -> None:
    with JobTester(before) as tester:
        tester.pipe_input({"customer": "ann", "amount": 100.0, "country": "DE"})
        kept = tester.states()

        with pytest.raises(ConfigurationError, match=what) as caught:
            tester.restart(job=after)
        assert "name= of its aggregate()" in str(caught.value)

        tester.restart(job=before)
        assert tester.states() == kept


def test_another_application_is_not_a_changed_job() -> None:
    with JobTester(BEFORE) as tester, pytest.raises(ConfigurationError, match="another application"):
        tester.restart(job=StatefulJob("other", ORDERS.aggregate(COUNT, TOTAL, LAST).sink("out")))


# -- random changes, compared with a model ---------------------------------------------------------------------------

POOL: dict[str, Callable[[str], Aggregate]] = {
    "n": lambda _: F.count(),
    "sum": F.sum,
    "avg": F.avg,
    "min": F.min,
    "max": F.max,
    "first": F.first,
    "last": F.last,
    "some": lambda column: F.first(column, ignorenulls=True),
}
COLUMNS = {"amount": "DOUBLE", "pieces": "BIGINT", "note": "STRING"}
VALUES: dict[str, list[Any]] = {
    "amount": [None, 0.0, -1.5, 2.25, 1e6],
    "pieces": [None, 0, 1, -7, 2**40],
    "note": [None, "", "a", "ü", "zz"],
}


@dataclass
class Model:
    """What each aggregate has seen of each key since it was added; a set of aggregates is kept by name."""

    seen: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def change(self, aggregates: dict[str, Aggregate]) -> None:
        self.seen = {name: self.seen.get(name, {}) for name in aggregates}

    def take(self, rows: list[dict[str, Any]], aggregates: dict[str, Aggregate]) -> None:
        for row in rows:
            self.keys.add(row["key"])
            for name, aggregate in aggregates.items():
                self.seen[name].setdefault(row["key"], []).append(row.get(str(aggregate.column)))

    def states(self, aggregates: dict[str, Aggregate]) -> dict[str, dict[str, Any]]:
        return {
            key: {name: result(aggregates[name], self.seen[name].get(key, [])) for name in aggregates}
            for key in self.keys
        }


def result(aggregate: Aggregate, column: list[Any]) -> Any:
    values = [value for value in column if value is not None]
    match aggregate.function:
        case Function.COUNT:
            return len(column)
        case Function.FIRST:
            return next(iter(values if aggregate.ignorenulls else column), None)
        case Function.LAST:
            return column[-1] if column else None
        case Function.MIN:
            return min(values, key=in_order, default=None)
        case Function.MAX:
            return max(values, key=in_order, default=None)
    if not values:
        return None
    return sum(values) if aggregate.function is Function.SUM else sum(map(float, values)) / len(values)


def in_order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def drawn(randomness: random.Random) -> dict[str, Aggregate]:
    """One meaning a name, so that every change is one that migrates."""
    chosen: dict[str, Aggregate] = {}
    for _ in range(randomness.randint(1, 6)):
        column, function = randomness.choice(list(COLUMNS)), randomness.choice(list(POOL))
        if column == "note" and function in ("sum", "avg"):
            continue
        chosen[f"{function} {column}"] = POOL[function](column).alias(f"{function} {column}")
    return chosen or {"n amount": F.count().alias("n amount")}


def agree(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


@pytest.mark.parametrize("round_", range(6))
def test_random_changes_of_the_aggregates_leave_every_result_right(round_: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    randomness, model = random.Random(seed), Model()
    schema = ", ".join(["key STRING", *map(" ".join, COLUMNS.items())])
    keyed = stream("in", schema=schema, key="key").group_by("key")
    aggregates = drawn(randomness)
    model.change(aggregates)
    with JobTester(of_orders(keyed.aggregate(*aggregates.values())), partitions=1) as tester:
        for _ in range(12):
            happens = randomness.randrange(4)
            if happens == 0:
                aggregates = drawn(randomness)
                tester.restart(
                    randomness.choice(["kept", "empty"]), job=of_orders(keyed.aggregate(*aggregates.values()))
                )
                if model.keys:
                    # What changed counts from the first commit on: a version without one left nothing behind.
                    tester.pipe_inputs(rows := [{"key": "commit"}])
                    model.change(aggregates)
                    model.take(rows, aggregates)
                else:
                    model.change(aggregates)
            elif happens == 1:
                tester.promote_standby()
            else:
                rows = [
                    {"key": randomness.choice("abcdef"), **{n: randomness.choice(v) for n, v in VALUES.items()}}
                    for _ in range(randomness.randint(1, 8))
                ]
                tester.pipe_inputs(rows)
                model.take(rows, aggregates)
            found, wanted = tester.states(), model.states(aggregates)
            assert found.keys() == wanted.keys()
            for key, state in wanted.items():
                assert state.keys() == found[key].keys()
                for name, value in state.items():
                    assert agree(value, found[key][name]), (seed, key, name, value, found[key][name])


SINKS = {
    "per-customer": ORDERS.aggregate(COUNT, name="customers").sink("per-customer"),
    "per-amount": stream("orders", schema=SCHEMA)
    .group_by("amount")
    .aggregate(COUNT, name="amounts")
    .sink("per-amount"),
    "large": stream("orders", schema=SCHEMA)
    .filter("amount > 2", name="rest")
    .select("amount", "customer")
    .sink("large", key="customer"),
    "small": stream("orders", schema=SCHEMA)
    .filter("amount <= 2", name="rest")
    .select("amount", "customer")
    .sink("small", key="customer"),
}


@pytest.mark.parametrize("round_", [*(pytest.param(n, marks=pytest.mark.long) for n in range(3)), 3])
def test_sinks_that_are_moved_taken_out_and_put_back_lose_and_double_nothing(round_: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    randomness = random.Random(seed)

    def drawn_job() -> StatefulJob:
        chosen = randomness.sample(list(SINKS), randomness.randint(1, len(SINKS)))
        return StatefulJob("app", *(SINKS[name] for name in chosen))

    rows, out = list[dict[str, Any]](), list[dict[str, Any]]()
    with JobTester(drawn_job(), partitions=2) as tester:
        for _ in range(8):
            more = [
                order(randomness.choice("abc"), float(randomness.randint(1, 4)))
                for _ in range(randomness.randint(0, 5))
            ]
            tester.pipe_inputs([InputRecord(row, key=str(row["customer"])) for row in more])
            rows += more
            tester.restart(randomness.choice(["kept", "empty"]), job=drawn_job())
            if randomness.random() < 0.3:
                tester.promote_standby()
        tester.restart(job=StatefulJob("app", *SINKS.values()))
        out += [record.value for name in ("large", "small") for record in tester.read_output(name)]

        assert tester.states("customers") == {
            name: {"n": number} for name, number in Counter(row["customer"] for row in rows).items()
        }
        assert sorted(out, key=str) == sorted(
            ({"amount": row["amount"], "customer": row["customer"]} for row in rows), key=str
        )
        assert {float(key): state["n"] for key, state in tester.states("amounts").items()} == Counter(
            row["amount"] for row in rows
        )
