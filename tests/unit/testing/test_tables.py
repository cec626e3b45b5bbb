"""What is kept of tables: aggregates that rows leave again, filters that delete, the newest row of a stream."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Final

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, Table, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.testing import InputRecord, JobTester, check_batching

T0: Final = 1_700_000_000_000
PRODUCTS: Final = table("products", schema="id STRING, category STRING, shop STRING, price BIGINT", key="id")
ORDERS: Final = stream("orders", schema="customer STRING, product STRING, amount BIGINT", key="customer")


def product(id_: str, category: str | None = None, price: int | None = None, at: int = 0, **more: Any) -> InputRecord:
    """A row of the table; a deletion without a category."""
    row = {"id": id_, "category": category, "shop": "s", "price": price, **more}
    return InputRecord(row if category else None, key=id_, topic="products", timestamp_ms=T0 + at)


def by_category(*aggregates: Any, of: Table = PRODUCTS) -> StatefulJob:
    return StatefulJob("tested", of.group_by("category").aggregate(*aggregates).sink("out"))


def outputs(tester: JobTester) -> list[tuple[str, Any]]:
    return [(str(record.key), record.value) for record in tester.read_output("out")]


def newest(job: StatefulJob, records: Sequence[InputRecord], partitions: int = 1) -> dict[str, Any]:
    """The sink's table, once all of it is processed one by one."""
    with JobTester(job, partitions=partitions) as tester:
        for record in records:
            tester.pipe_input(record)
        found = {record.key: record.value for record in tester.read_output("out")}
    return {key: value for key, value in found.items() if value is not None}


COUNT_AND_TOTAL: Final = (F.count().alias("n"), F.sum("price").alias("total"))


def test_row_that_changes_leaves_the_group_that_it_was_in() -> None:
    with JobTester(by_category(*COUNT_AND_TOTAL)) as tester:
        tester.pipe_inputs([product("a", "tea", 5), product("b", "tea", 7)])
        assert outputs(tester) == [("tea", {"category": "tea", "n": 2, "total": 12})]
        tester.pipe_input(product("a", "jam", 6, at=1))
        assert outputs(tester) == [
            ("jam", {"category": "jam", "n": 1, "total": 6}),
            ("tea", {"category": "tea", "n": 1, "total": 7}),
        ]


def test_group_without_rows_is_deleted() -> None:
    with JobTester(by_category(*COUNT_AND_TOTAL)) as tester:
        tester.pipe_input(product("a", "tea", 5))
        tester.pipe_input(product("a", at=1))
        assert outputs(tester)[1:] == [("tea", None)]
        assert tester.states("out") == {}


def test_row_that_comes_late_changes_no_group() -> None:
    with JobTester(by_category(*COUNT_AND_TOTAL)) as tester:
        tester.pipe_input(product("a", "tea", 5, at=10))
        tester.pipe_input(product("a", "jam", 6, at=9))
        tester.pipe_input(product("a", at=12))
        tester.pipe_input(product("a", "jam", 6, at=11))
        assert outputs(tester) == [("tea", {"category": "tea", "n": 1, "total": 5}), ("tea", None)]


def test_row_that_stays_as_it_is_makes_no_record() -> None:
    with JobTester(by_category(*COUNT_AND_TOTAL)) as tester:
        tester.pipe_input(product("a", "tea", 5))
        outputs(tester)
        tester.pipe_inputs([product("a", "jam", 6, at=1), product("a", "tea", 5, shop="other", at=2)])
        assert outputs(tester) == []


def test_row_without_a_group_is_in_none() -> None:
    with JobTester(by_category(*COUNT_AND_TOTAL)) as tester:
        tester.pipe_input(product("a", "tea", 5))
        tester.pipe_input(InputRecord({"id": "a", "price": 9}, key="a", topic="products", timestamp_ms=T0 + 1))
        tester.pipe_input(product("a", "tea", 6, at=2))
        assert [value and value["total"] for _, value in outputs(tester)] == [5, None, 6]


def test_sum_is_null_again_once_no_value_is_left() -> None:
    with JobTester(by_category(F.sum("price").alias("total"), F.count("price").alias("priced"))) as tester:
        tester.pipe_inputs([product("a", "tea", 5), product("b", "tea", None)])
        tester.pipe_input(product("a", at=1))
        assert [value for _, value in outputs(tester)][-1] == {"category": "tea", "total": None, "priced": 0}


@pytest.mark.parametrize(("large", "rest"), [(1e300, 0.1), (math.nan, 0.1), (math.inf, 0.3), (-math.inf, 0.3)], ids=str)
def test_double_that_is_gone_leaves_nothing_behind(large: float, rest: float) -> None:
    rows = table("products", schema="id STRING, category STRING, price DOUBLE", key="id")
    job = by_category(
        F.sum("price").alias("total"), F.avg("price").alias("mean"), F.var_pop("price").alias("v"), of=rows
    )
    given = repr(large) if math.isfinite(large) else f'"{"NaN" if math.isnan(large) else "Infinity"}"'
    given = given if large > 0 or math.isnan(large) else '"-Infinity"'
    with JobTester(job) as tester:
        for id_, price in (("a", repr(rest)), ("b", given), ("c", "0.7")):
            text = f'{{"id":"{id_}","category":"tea","price":{price}}}'
            tester.pipe_input(InputRecord(text, key=id_, topic="products", timestamp_ms=T0))
        tester.pipe_input(product("b", at=1))
        tester.pipe_input(product("c", at=1))
        assert outputs(tester)[-1][1] == {"category": "tea", "total": rest, "mean": rest, "v": 0}


def test_sum_that_has_no_room_is_null_until_it_has() -> None:
    with JobTester(by_category(F.sum("price").alias("total"))) as tester:
        for record in (product("a", "tea", 2**62), product("b", "tea", 2**62), product("b", "tea", -1, at=1)):
            tester.pipe_input(record)
        assert [value["total"] for _, value in outputs(tester)] == [2**62, None, 2**62 - 1]


@pytest.mark.parametrize(
    "function",
    [F.min("price"), F.max("price"), F.first("price"), F.last("price", by="id"), F.collect_list("price", limit=3),
     F.count_distinct("price"), F.approx_percentile("price", 0.5), F.top("price", 2)],
    ids=lambda one: one.name,
)  # fmt: skip
def test_function_that_cannot_take_a_row_out_is_refused(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot take a row out again: .* to_stream\(\).*emit=\"close\""):
        by_category(function)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PRODUCTS.group_by("category").aggregate(), "it needs at least one"),
        (lambda: PRODUCTS.group_by("categry"), "did you mean 'category'"),
        (lambda: PRODUCTS.group_by("category", "Category"), "each once"),
        (lambda: PRODUCTS.group_by(window("at", "1 hour")), "got a window, and its rows change"),  # type: ignore[arg-type]
        (lambda: PRODUCTS.select("category"), "leaves out its key"),
        (lambda: PRODUCTS.select("id", "explode(array(1)) AS x"), "several rows of one"),
        (lambda: PRODUCTS.with_column("id", "upper(id)"), "the key of the table"),
        (lambda: PRODUCTS.filter("prce > 1"), "did you mean 'price'"),
    ],
    ids=["nothing", "no column", "twice", "window", "lost key", "explode", "other key", "column of a filter"],
)  # fmt: skip
def test_what_a_table_cannot_do_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build()


def test_table_of_aggregates_is_aggregated_by_another_key() -> None:
    spent = ORDERS.group_by("customer").aggregate(F.sum("amount").alias("spent"), name="spent")
    job = StatefulJob("tested", spent.group_by("spent").aggregate(F.count().alias("customers")).sink("out"))
    with JobTester(job) as tester:
        for customer, amount in (("ann", 5), ("bob", 5), ("ann", 2)):
            tester.pipe_input({"customer": customer, "product": "p", "amount": amount})
        assert outputs(tester) == [
            ("5", {"spent": "5", "customers": 1}),
            ("5", {"spent": "5", "customers": 2}),
            ("5", {"spent": "5", "customers": 1}),
            ("7", {"spent": "7", "customers": 1}),
        ]  # fmt: skip


def test_rows_that_join_no_more_leave_their_group() -> None:
    prices = table("prices", schema="id STRING, cost BIGINT", key="id")
    joined = PRODUCTS.join(prices, on="id", name="joined")
    job = StatefulJob("tested", joined.group_by("category").aggregate(F.sum("cost").alias("cost")).sink("out"))
    with JobTester(job) as tester:
        tester.pipe_input(product("a", "tea", 5))
        tester.pipe_input(InputRecord({"id": "a", "cost": 3}, key="a", topic="prices", timestamp_ms=T0))
        tester.pipe_input(InputRecord(None, key="a", topic="prices", timestamp_ms=T0 + 1))
        assert [value and value["cost"] for _, value in outputs(tester)] == [3, None]


# -- steps of tables, and tables of streams -------------------------------------------------------------------------


def test_row_that_no_longer_passes_a_filter_is_deleted() -> None:
    dear = PRODUCTS.filter("price > 5").select("id", "price * 2 AS twice")
    with JobTester(StatefulJob("tested", dear.sink("out"))) as tester:
        for record in (
            product("a", "tea", 6),
            product("b", "tea", 1),
            product("a", "tea", 5, at=1),
            product("b", at=1),
        ):
            tester.pipe_input(record)
        assert outputs(tester) == [("a", {"id": "a", "twice": 12}), ("a", None)]
        tester.pipe_input(product("a", "tea", 7, at=2))
        assert outputs(tester) == [("a", {"id": "a", "twice": 14})]


def test_group_of_several_columns_comes_out_as_those_columns() -> None:
    counted = PRODUCTS.group_by("shop", "category").aggregate(F.count(filter="price > 5").alias("dear"))
    with JobTester(StatefulJob("tested", counted.sink("out"))) as tester:
        tester.pipe_inputs([product("a", "tea", 5), product("b", "tea", 6)])
        assert outputs(tester) == [('["s","tea"]', {"shop": "s", "category": "tea", "dear": 1})]


def test_filter_of_a_table_is_met_by_joins_groups_and_changes() -> None:
    dear = PRODUCTS.filter("price > 5")
    views = stream("views", schema="id STRING", key="id")
    job = StatefulJob(
        "tested",
        views.join(dear, on="id", how="left").sink("seen"),
        dear.group_by("category").aggregate(F.count(filter="shop = 's'").alias("n")).sink("out"),
    )
    with JobTester(job) as tester:
        for price in (6, 5):
            tester.pipe_input(product("a", "tea", price, at=10 - price))
            tester.pipe_input(InputRecord({"id": "a"}, topic="views"))
        assert [record.value["price"] for record in tester.read_output("seen")] == [6, None]
        assert outputs(tester) == [("tea", {"category": "tea", "n": 1}), ("tea", None)]


def test_changes_of_a_filtered_table_count_what_fails_as_deleted() -> None:
    spent = ORDERS.group_by("customer").aggregate(F.sum("amount").alias("spent"), name="spent").filter("spent < 10")
    with JobTester(StatefulJob("tested", spent.to_stream().sink("out", key="customer"))) as tester:
        for amount in (5, 9):
            tester.pipe_input({"customer": "ann", "product": "p", "amount": amount})
        assert outputs(tester) == [("ann", {"customer": "ann", "spent": 5})]
        assert tester.counts.filtered["deleted"] == 1


def test_newest_row_of_a_stream_is_its_tables_by_event_time() -> None:
    moves = stream("moves", "who STRING, place STRING, at BIGINT", key="who", event_time="at", watermark="1 second")
    job = StatefulJob("tested", moves.to_table("who").sink("out"))
    with JobTester(job) as tester:
        for place, at in (("sea", 5_000), ("hill", 1), ("town", 5_000)):
            tester.pipe_input({"who": "ann", "place": place, "at": at})
        assert [value["place"] for _, value in outputs(tester)] == ["sea", "town"]
        assert tester.state("ann") == {"who": "ann", "place": "town", "at": 5_000}


def test_table_of_a_stream_by_another_key_is_aggregated_and_joined() -> None:
    moves = stream("moves", "who STRING, place STRING, at BIGINT", event_time="at", watermark="1 second")
    where = moves.to_table("who", name="where")
    names = table("names", schema="who STRING, name STRING", key="who")
    job = StatefulJob(
        "tested",
        where.group_by("place").aggregate(F.count().alias("people")).sink("out"),
        where.join(names, on="who", name="named").sink("named"),
    )
    with JobTester(job) as tester:
        tester.pipe_input(InputRecord({"who": "ann", "name": "Ann"}, key="ann", topic="names"))
        for who, place in (("ann", "sea"), ("bob", "sea"), ("ann", "hill")):
            tester.pipe_input(InputRecord({"who": who, "place": place, "at": T0}, topic="moves"))
        assert {key: value["people"] for key, value in outputs(tester)} == {"sea": 1, "hill": 1}
        assert tester.read_output("named")[-1].value == {
            "who": "ann", "place": "hill", "at": T0, "name": "Ann",
        }  # fmt: skip


# -- against plain Python, and where micro-batches end --------------------------------------------------------------


def drawn(seed: int, number: int) -> list[InputRecord]:
    """Random changes of a table, late ones and deletions among them."""
    chance = random.Random(seed)
    return [
        product(
            chance.choice("abcde"),
            chance.choice(["tea", "jam", "rye", None]),
            chance.choice([None, 0, 3, -7, 2**40]),
            at=10 * n - chance.choice([0, 0, 0, 15, 200]),
            shop=chance.choice(["s", "t", None]),
        )
        for n in range(number)
    ]


def oracle(records: Sequence[InputRecord]) -> dict[str, Any]:
    """The newest row of each key by time, then the groups of what is there."""
    kept: dict[str, tuple[int, Any]] = {}
    for record in records:
        assert record.timestamp_ms is not None
        if record.key not in kept or record.timestamp_ms >= kept[record.key][0]:
            kept[str(record.key)] = (record.timestamp_ms, record.value)
    groups: dict[str, list[Any]] = {}
    for _, row in kept.values():
        if row is not None and row["shop"] is not None:
            groups.setdefault(row["shop"], []).append(row)
    found = {}
    for key, rows in groups.items():
        prices = [row["price"] for row in rows if row["price"] is not None]
        found[key] = {
            "shop": rows[0]["shop"],
            "n": len(rows),
            "priced": len(prices),
            "total": sum(prices) if prices else None,
            "mean": sum(prices) / len(prices) if prices else None,
        }
    return found


OF_SHOPS: Final = StatefulJob(
    "tested",
    PRODUCTS.group_by("shop")
    .aggregate(*COUNT_AND_TOTAL, F.count("price").alias("priced"), F.avg("price").alias("mean"))
    .sink("out"),
)


def test_groups_are_those_of_the_rows_that_are_there() -> None:
    seed = random.SystemRandom().randrange(2**32)
    records = drawn(seed, 60)
    assert newest(OF_SHOPS, records, partitions=3) == oracle(records), f"seed {seed}"


def test_groups_of_a_table_do_not_depend_on_micro_batches() -> None:
    seed = random.SystemRandom().randrange(2**32)
    check_batching(by_category(*COUNT_AND_TOTAL, F.stddev("price").alias("s")), drawn(seed, 24), seed=seed, cuts=3)


def test_column_with_the_name_of_the_sign_is_refused() -> None:
    prices = table("prices", schema="id STRING, shop STRING, sign__ BIGINT", key="id")
    with pytest.raises(ConfigurationError, match=r"needs the name 'sign__', .* give that one another name with select"):
        prices.group_by("shop").aggregate(F.count().alias("n"))
