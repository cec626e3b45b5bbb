"""Joins through the tester: from the language to what is kept and written."""

from __future__ import annotations

import random
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError, RecordError
from airflow_provider.streaming import StatefulJob, stream, table
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.joins.join_rows import How
from airflow_provider.testing import InputRecord, JobTester, OutputRecord, check_batching

ORDERS = stream("orders", schema="id STRING, customer STRING, amount BIGINT")
CUSTOMERS = table("customers", schema="customer STRING, country STRING", key="customer")
SHOWN = stream("impressions", schema="ad STRING, shown BIGINT", event_time="shown", watermark="0 seconds")
CLICKED = stream("clicks", schema="ad STRING, clicked BIGINT", event_time="clicked", watermark="0 seconds")
LIMITS = table("limits", schema="customer STRING, credit BIGINT", key="customer")


def order(number: int, customer: str | None, amount: int = 1, at: int | None = None) -> InputRecord:
    value = {"id": f"o{number}", "customer": customer, "amount": amount}
    return InputRecord(value, topic="orders", timestamp_ms=at)


def customer(name: str, country: str | None, at: int | None = None) -> InputRecord:
    value = None if country is None else {"customer": name, "country": country}
    return InputRecord(value, topic="customers", key=name, timestamp_ms=at)


def limit(name: str, credit: int | None) -> InputRecord:
    return InputRecord(None if credit is None else {"customer": name, "credit": credit}, topic="limits", key=name)


def shown(ad: str | None, at: int) -> InputRecord:
    return InputRecord({"ad": ad, "shown": at}, topic="impressions")


def clicked(ad: str | None, at: int) -> InputRecord:
    return InputRecord({"ad": ad, "clicked": at}, topic="clicks")


def values(tester: JobTester, topic: str | None = None) -> list[Any]:
    return [record.value for record in tester.read_output(topic)]


# -- a stream and a table ------------------------------------------------------------------------------------------


def enriched(how: How = "inner", **given: Any) -> StatefulJob:
    return StatefulJob("shop", ORDERS.join(CUSTOMERS, on="customer", how=how, **given).sink("enriched"))


def test_order_gets_its_customers_country() -> None:
    with JobTester(enriched()) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order(1, "ann", 5), order(2, "bob"), customer("ann", "DE")])
        tester.pipe_inputs([order(3, "ann"), customer("ann", None), order(4, "ann")])

        assert tester.read_output() == [
            OutputRecord("ann", {"customer": "ann", "id": "o1", "amount": 5, "country": "AT"}),
            OutputRecord("ann", {"customer": "ann", "id": "o3", "amount": 1, "country": "DE"}),
        ]
        assert tester.states() == {}
        assert tester.counts.processed == 7


def test_join_in_one_variable_feeds_all_of_its_uses() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer", name="enriched")
    counts = joined.group_by("country").aggregate(F.count().alias("n"))
    spent = joined.group_by("customer").aggregate(F.sum("amount").alias("spent"))
    job = StatefulJob("shop", joined.sink("all"), counts.sink("by-country"), spent.sink("spent"))

    with JobTester(job) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order(1, "ann", 5), order(2, "ann", 1)])

        assert [value["id"] for value in values(tester, "all")] == ["o1", "o2"]
        assert values(tester, "by-country")[-1] == {"country": "AT", "n": 2}
        assert values(tester, "spent")[-1] == {"customer": "ann", "spent": 6}


def test_left_join_keeps_orders_without_a_customer() -> None:
    with JobTester(enriched("left")) as tester:
        tester.pipe_inputs([order(1, "bob"), order(2, None)])

        assert values(tester) == [
            {"customer": "bob", "id": "o1", "amount": 1, "country": None},
            {"customer": None, "id": "o2", "amount": 1, "country": None},
        ]


def test_inner_join_counts_orders_with_a_null_key() -> None:
    with JobTester(enriched()) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order(1, None), order(2, "ann")])

        assert [value["id"] for value in values(tester)] == ["o2"]
        assert tester.counts.filtered == {"no_customer": 1}
        assert tester.counts.failed == 0


def test_with_a_history_an_order_meets_the_country_of_its_time() -> None:
    with JobTester(enriched("left", history="1 hour")) as tester:
        tester.pipe_inputs([customer("ann", "AT", 1_000), customer("ann", "DE", 2_000)])
        tester.pipe_inputs([order(1, "ann", at=1_500), order(2, "ann", at=2_500), order(3, "ann", at=500)])

        assert [value["country"] for value in values(tester)] == ["AT", "DE", None]


def test_with_a_grace_an_order_waits_for_the_country_of_its_time() -> None:
    with JobTester(enriched("left", grace="1 second")) as tester:
        tester.pipe_inputs([customer("ann", "AT", 1_000), order(1, "ann", at=2_500), order(2, "bob", at=2_600)])
        assert tester.read_output() == []
        tester.pipe_inputs([customer("ann", "DE", 2_000), customer("ann", "FR", 3_000)])
        tester.restart("empty")
        tester.pipe_inputs([order(3, "ann", at=3_550)])
        assert [(value["id"], value["country"]) for value in values(tester)] == [("o1", "DE")]
        tester.promote_standby()
        tester.pipe_inputs([order(4, "bob", at=9_000), order(5, "ann", at=3_100)])

        assert [(v["id"], v["country"]) for v in values(tester)] == [("o2", None), ("o5", "FR"), ("o3", "FR")]
        assert [version["from_ms"] for version in tester.states()["ann"]] == [3_000]  # what is needed


def test_what_waits_stays_when_the_grace_changes() -> None:
    with JobTester(enriched("left", grace="1 hour")) as tester:
        tester.pipe_inputs([customer("ann", "AT", 1_000), order(1, "ann", at=2_500), order(2, "ann", at=5_000)])
        tester.restart(job=enriched("left", grace="1 second"))
        tester.pipe_inputs([order(3, "ann", at=5_500)])
        assert [value["id"] for value in values(tester)] == ["o1"]
        tester.restart(job=enriched("left", history="1 hour"))
        tester.pipe_inputs([customer("bob", "AT", 1_000)])
        assert [value["id"] for value in values(tester)] == ["o2", "o3"]
        with pytest.raises(
            ConfigurationError, match="until its history is over, in chunks became a table's rows for a stream"
        ):
            tester.restart(job=enriched("left"))


def test_older_record_does_not_bring_a_deleted_key_back() -> None:
    with JobTester(enriched("left")) as tester:
        tester.pipe_inputs([customer("ann", "AT", 1_000), customer("ann", None, 5_000)])
        tester.restart("empty")
        assert tester.states() == {}
        assert tester.state("ann") is None
        tester.pipe_inputs([customer("ann", "OLD", 3_000), order(1, "ann", at=6_000)])
        tester.promote_standby()
        # A day later by the table's own time it is forgotten.
        tester.pipe_inputs([customer("bob", "DE", 86_405_000)])
        tester.pipe_inputs([customer("ann", "DE", 3_000), order(2, "ann", at=6_000)])

        assert [(value["id"], value["country"]) for value in values(tester)] == [("o1", None), ("o2", "DE")]
        assert list(tester.states()) == ["ann", "bob"]


@pytest.mark.parametrize("given", [{"grace": "5 minutes"}, {"history": "520 weeks"}], ids=str)
def test_no_number_of_versions_of_a_key_stops_a_task(given: dict[str, str]) -> None:
    with JobTester(enriched("left", **given)) as tester:
        tester.pipe_input(order(1, "ann", at=-1_000))
        for first in range(0, 1_500, 500):
            rows = [customer("ann", f"{at}" + "x" * 1_000, at * 60_000) for at in range(first, first + 500)]
            tester.pipe_inputs(rows)
        tester.restart("empty")
        tester.pipe_inputs([order(2, "ann", at=100 * 60_000 + 1), order(3, "ann", at=110 * 60_000)])
        tester.promote_standby()
        tester.pipe_input(order(4, "bob", at=120 * 60_000))

        found = {value["id"]: (value["country"] or "").rstrip("x") for value in values(tester)}
        assert {number: found[number] for number in ("o1", "o2", "o3")} == {"o1": "", "o2": "100", "o3": "110"}
        # With a grace, those that no order in time meets any more are not seen.
        assert len(tester.state("ann")) == (1_500 if "history" in given else 1_500 - 115)
        assert tester.state("ann") == tester.states()["ann"]


def test_row_too_large_for_a_join_is_left_out_alone() -> None:
    with JobTester(enriched("left").on_error("skip")) as tester:
        tester.pipe_inputs([customer("ann", "A" * 600_000, 1), order(1, "ann"), customer("ann", None, 2)])
        long = InputRecord({"id": "x" * 600_000, "customer": "ann", "amount": 1}, topic="orders")
        tester.pipe_inputs([customer("ann", "B" * 600_000, 3), long, order(2, "ann"), customer("ann", None, 4)])

        assert [value["id"] for value in values(tester)] == ["o1", "o2"]
        assert tester.counts.failed == 1
        assert tester.states() == {}


# -- a table that each task has in full ----------------------------------------------------------------------------

EVERYWHERE = table("customers", schema="customer STRING, country STRING", key="customer", broadcast=True)


def test_table_that_is_broadcast_is_in_each_task_and_rows_stay_in_theirs() -> None:
    job = StatefulJob("shop", ORDERS.join(EVERYWHERE, on="customer", how="left").sink("enriched"))
    with JobTester(job, partitions=3) as tester:
        tester.pipe_inputs([customer("ann", "AT", 1), customer("bob", "DE", 2), customer("bob", None, 3)])
        orders = [
            InputRecord({"id": f"o{n}", "customer": name, "amount": 1}, topic="orders", partition=n % 3, key=str(n))
            for n, name in enumerate(["ann"] * 6 + ["bob"])
        ]
        tester.pipe_inputs(orders)
        tester.restart("empty")
        tester.promote_standby()
        tester.pipe_inputs([customer("ann", "FR", 4)])
        tester.pipe_inputs([InputRecord({"id": "o7", "customer": "ann"}, topic="orders", partition=2)])

        assert sorted((v["id"], v["country"]) for v in values(tester)) == [
            *((f"o{n}", "AT") for n in range(6)),
            ("o6", None),
            ("o7", "FR"),
        ]
        joins = [task for task in tester._active.tasks.values() if task.id.stage == 2]  # noqa: SLF001
        assert [[key for key, _ in task.replica.items() if key[0] != 0xFF] for task in joins] == [[b"ann", b"bob"]] * 3
        assert tester.states() == {"ann": {"customer": "ann", "country": "FR"}}
        assert [task.commit_record.processed for task in joins if task.commit_record] == [7, 6, 7]
        tables = [task.commit_record for task in tester._active.tasks.values() if task.id.stage == 1]  # noqa: SLF001
        assert sum((record.outputs or {}).get("shop-enriched-repartition", 0) for record in tables if record) == 12


def test_broadcast_is_the_same_wherever_batches_end() -> None:
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    records, now = list[InputRecord](), 1_700_000_000_000
    for number in range(25):
        now += randomness.choice([0, 1_000])
        name = randomness.choice(["ann", "bob"])
        if randomness.random() < 0.4:
            records.append(customer(name, randomness.choice(["AT", "DE", None]), now))
        else:
            records.append(order(number, name, number, now))
    job = StatefulJob("shop", ORDERS.join(EVERYWHERE, on="customer", grace="2 seconds").sink("enriched"))
    check_batching(job, records, seed=seed, cuts=3)


def test_table_cannot_be_broadcast_later_on_the_same_store() -> None:
    with JobTester(enriched()) as tester:
        tester.pipe_inputs([customer("ann", "AT")])
        job = StatefulJob("shop", ORDERS.join(EVERYWHERE, on="customer").sink("enriched"))
        with pytest.raises(ConfigurationError, match="a table's rows for a stream became all of a table's rows"):
            tester.restart(job=job)


# -- errors, and what follows --------------------------------------------------------------------------------------


def test_record_of_a_table_under_another_key_is_an_error() -> None:
    with (
        JobTester(enriched()) as tester,
        pytest.raises(RecordError, match="has the key 'bob', not that of its row, 'ann'"),
    ):
        tester.pipe_input(InputRecord({"customer": "ann", "country": "AT"}, topic="customers", key="bob"))


def test_join_may_be_grouped_by_a_column_of_the_table() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer")
    job = StatefulJob("shop", joined.group_by("country").aggregate(F.sum("amount").alias("spent")).sink("spent"))
    with JobTester(job) as tester:
        tester.pipe_inputs([customer("ann", "AT"), customer("bob", "AT"), order(1, "ann", 5), order(2, "bob", 3)])
        tester.pipe_inputs([customer("bob", "DE"), order(3, "bob", 2)])

        assert tester.states("spent") == {"AT": {"spent": 8}, "DE": {"spent": 2}}


def test_join_may_be_grouped_by_its_own_key() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer")
    job = StatefulJob("shop", joined.group_by("customer").aggregate(F.count().alias("n")).sink("n"))
    with JobTester(job) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order(1, "ann"), order(2, "ann")])

        assert tester.states("n") == {"ann": {"n": 2}}
        assert len(job.stages) == 4


def test_rows_of_a_join_are_written_behind_steps() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer").filter("amount > 1", name="small").with_column("twice", "amount * 2")
    with JobTester(StatefulJob("shop", joined.sink("enriched", key="country"))) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order(1, "ann", 5), order(2, "ann", 1)])

        value = {"customer": "ann", "id": "o1", "amount": 5, "country": "AT", "twice": 10}
        assert tester.read_output() == [OutputRecord("AT", value)]
        assert tester.counts.filtered["small"] == 1


def test_duplicates_of_a_join_are_dropped_behind_steps() -> None:
    timed = stream("orders", schema="customer STRING, at BIGINT", event_time="at", watermark="0 seconds")
    joined = timed.join(CUSTOMERS, on="customer").select("*", "upper(customer) AS name")
    job = StatefulJob("shop", joined.drop_duplicates("name", within="1 hour").sink("first"))
    with JobTester(job) as tester:
        again = [InputRecord({"customer": "ann", "at": at}, topic="orders") for at in (1, 2)]
        tester.pipe_inputs([customer("ann", "AT", at=0), *again])

        value = {"customer": "ann", "at": 1, "country": "AT", "name": "ANN"}
        assert tester.read_output() == [OutputRecord("ANN", value)]


def test_result_of_a_join_is_joined_again() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer").join(LIMITS, on="customer")
    with JobTester(StatefulJob("shop", joined.sink("out"))) as tester:
        tester.pipe_inputs([customer("ann", "AT"), limit("ann", 100), order(1, "ann")])

        assert values(tester) == [{"customer": "ann", "id": "o1", "amount": 1, "country": "AT", "credit": 100}]


# -- two tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_two_tables_are_one(how: How) -> None:
    job = StatefulJob("shop", CUSTOMERS.join(LIMITS, on="customer", how=how).sink("both"))
    with JobTester(job) as tester:
        tester.pipe_inputs([customer("ann", "AT"), customer("bob", "DE"), limit("ann", 1), limit("eve", 2)])
        tester.pipe_inputs([limit("ann", None), limit("ann", 3), customer("bob", None)])

        table_ = dict[str, Any]()
        for record in tester.read_output():
            table_[record.key] = record.value
        rows = {key: (row["country"], row["credit"]) for key, row in table_.items() if row is not None}
        eve = {"eve": (None, 2)} if how == "outer" else {}
        assert rows == {"ann": ("AT", 3), **eve}


def test_table_of_two_tables_enriches_a_stream() -> None:
    both = CUSTOMERS.join(LIMITS, on="customer")
    with JobTester(StatefulJob("shop", ORDERS.join(both, on="customer", how="left").sink("out"))) as tester:
        tester.pipe_inputs([customer("ann", "AT"), limit("ann", 7), order(1, "ann"), limit("ann", None)])
        tester.pipe_inputs([order(2, "ann")])

        assert [(value["id"], value["country"], value["credit"]) for value in values(tester)] == [
            ("o1", "AT", 7),
            ("o2", None, None),
        ]


# -- two streams ---------------------------------------------------------------------------------------------------


def attributed(how: How = "inner", **interval: Any) -> StatefulJob:
    joined = SHOWN.join(CLICKED, on="ad", how=how, **(interval or {"before": "0 seconds", "after": "10 seconds"}))
    return StatefulJob("ads", joined.sink("attributed"))


def test_click_meets_its_impression() -> None:
    with JobTester(attributed()) as tester:
        tester.pipe_inputs([shown("a", 0), clicked("a", 10_000), clicked("a", 10_001), clicked("b", 5), shown("b", 6)])

        assert values(tester) == [{"ad": "a", "shown": 0, "clicked": 10_000}]


def test_impression_without_a_click_comes_out_once_when_it_is_over() -> None:
    with JobTester(attributed("left")) as tester:
        tester.pipe_inputs([shown("a", 0), shown("b", 1_000), clicked("b", 2_000)])
        tester.pipe_inputs([shown("c", 60_000)])
        assert values(tester) == [{"ad": "b", "shown": 1_000, "clicked": 2_000}]
        tester.restart()
        tester.pipe_inputs([clicked("x", 60_000), clicked("x", 70_000), shown("c", 70_000)])

        assert values(tester) == [{"ad": "a", "shown": 0, "clicked": None}]
        assert list(tester.states()) == ["c@left@60000", "c@left@70000", "x@right@70000"]


def test_late_rows_are_counted() -> None:
    with JobTester(attributed(within="1 second")) as tester:
        tester.pipe_inputs([shown("a", 10_000), clicked("a", 10_000), shown("a", 8_999), clicked("a", 9_000)])

        assert tester.counts.late == 1
        assert len(values(tester)) == 2


def test_outer_join_has_the_rows_of_both() -> None:
    with JobTester(attributed("outer")) as tester:
        tester.pipe_inputs([shown("a", 0), clicked("b", 0), clicked(None, 1), shown("x", 90_000), clicked("x", 90_000)])

        found = sorted(values(tester), key=str)
        assert found == sorted(
            [
                {"ad": "a", "shown": 0, "clicked": None},
                {"ad": "b", "shown": None, "clicked": 0},
                {"ad": None, "shown": None, "clicked": 1},
                {"ad": "x", "shown": 90_000, "clicked": 90_000},
            ],
            key=str,
        )


# -- several streams as one ----------------------------------------------------------------------------------------


def test_united_streams_are_counted_together() -> None:
    shop = stream("shop", schema="amount BIGINT, customer STRING, id STRING")
    both = ORDERS.union(shop)
    counts = both.group_by("customer").aggregate(F.count().alias("n"), F.sum("amount").alias("spent"))
    with JobTester(StatefulJob("all", counts.sink("out"), both.sink("rows", key="id"))) as tester:
        tester.pipe_input(order(1, "ann", 5))
        tester.pipe_input({"amount": 7, "customer": "ann", "id": "s1"}, topic="shop")

        assert tester.states() == {"ann": {"n": 2, "spent": 12}}
        assert sorted(record.key for record in tester.read_output("rows")) == ["o1", "s1"]


def test_united_streams_are_joined() -> None:
    shop = stream("shop", schema="amount BIGINT, customer STRING, id STRING")
    with JobTester(StatefulJob("all", ORDERS.union(shop).join(CUSTOMERS, on="customer").sink("out"))) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order(1, "ann", 5)])
        tester.pipe_input({"amount": 7, "customer": "ann", "id": "s1"}, topic="shop")

        assert [value["id"] for value in values(tester)] == ["o1", "s1"]


# -- what may not depend on micro-batches --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize(("history", "grace"), [(None, None), ("5 seconds", None), (None, "3 seconds")], ids=str)
def test_enrichment_is_the_same_wherever_batches_end(how: How, history: str | None, grace: str | None) -> None:
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    records, now = list[InputRecord](), 1_700_000_000_000
    behind = [0, 0, 4_000, 9_000]
    # An order that is further behind than the grace meets what is still kept of its time, which follows the watermark.
    orders_behind = behind if grace is None else [0, 0, 1_000, 3_000]
    for number in range(25):
        now += randomness.choice([0, 1_000])
        name = randomness.choice(["ann", "bob"])
        if randomness.random() < 0.4:
            records.append(customer(name, randomness.choice(["AT", "DE", None]), now - randomness.choice(behind)))
        else:
            at = now - randomness.choice(orders_behind)
            records.append(order(number, randomness.choice([name, name, None]), number, at))
    check_batching(enriched(how, history=history, grace=grace), records, seed=seed, cuts=3)


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_interval_join_is_the_same_wherever_batches_end(how: How) -> None:
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    records, now = list[InputRecord](), 1_700_000_000_000
    seen = {shown: 0, clicked: 0}
    while len(records) < 40:
        now += randomness.choice([0, 500, 3_000, 20_000])
        make, at = randomness.choice([shown, clicked]), now - randomness.choice([0, 0, 2_000, 30_000])
        # What is between, behind its watermark and not late, may meet what another one is not told yet to be over.
        if at >= seen[make] or at + 10_000 < seen[make]:
            seen[make] = max(seen[make], at)
            records.append(make(randomness.choice(["a", "b", None]), at))
    check_batching(attributed(how), records, seed=seed, cuts=3)


def test_kind_of_a_join_cannot_change_where_its_state_depends_on_it() -> None:
    with JobTester(attributed("inner")) as tester:
        tester.pipe_inputs([shown("a", 0)])
        with pytest.raises(ConfigurationError, match=r"inner join of two streams.*became left join of two streams"):
            tester.restart(job=attributed("left"))
