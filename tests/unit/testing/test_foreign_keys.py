"""Tables that are joined by a column that holds keys of the other one."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, stream, table
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.joins.join_rows import How
from airflow_provider.testing import InputRecord, JobTester, check_batching

T0: Final = 1_700_000_000_000
ORDERS: Final = table("orders", schema="id STRING, customer STRING, amount BIGINT", key="id")
CUSTOMERS: Final = table("customers", schema="customer STRING, country STRING", key="customer")


def order(id_: str, customer: str | None = None, amount: int | None = None, at: int = 0, *, gone: bool = False) -> Any:
    row = None if gone else {"id": id_, "customer": customer, "amount": amount}
    return InputRecord(row, key=id_, topic="orders", timestamp_ms=T0 + at)


def customer(name: str, country: str | None = None, at: int = 0) -> InputRecord:
    """A row; a deletion without a country."""
    row = None if country is None else {"customer": name, "country": country}
    return InputRecord(row, key=name, topic="customers", timestamp_ms=T0 + at)


def joined(how: How = "inner") -> StatefulJob:
    return StatefulJob("tested", ORDERS.join(CUSTOMERS, on="customer", how=how).sink("out"))


def outputs(tester: JobTester) -> list[tuple[str, Any]]:
    return [(str(record.key), record.value) for record in tester.read_output("out")]


def row(id_: str, name: str | None, amount: int | None, country: str | None) -> dict[str, Any]:
    return {"customer": name, "id": id_, "amount": amount, "country": country}


def test_row_comes_out_under_its_own_key_whichever_side_came_first() -> None:
    with JobTester(joined()) as tester:
        tester.pipe_inputs([order("1", "ann", 5), order("2", "bob", 7)])
        assert outputs(tester) == []
        tester.pipe_inputs([customer("ann", "AT"), order("3", "ann", 9)])
        assert outputs(tester) == [("1", row("1", "ann", 5, "AT")), ("3", row("3", "ann", 9, "AT"))]


def test_change_of_the_right_row_comes_out_of_all_rows_that_name_it() -> None:
    with JobTester(joined()) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order("1", "ann", 5), order("2", "ann", 7), order("3", "bob", 1)])
        outputs(tester)
        tester.pipe_input(customer("ann", "DE", at=1))
        assert outputs(tester) == [("1", row("1", "ann", 5, "DE")), ("2", row("2", "ann", 7, "DE"))]
        tester.pipe_input(customer("ann", at=2))
        assert outputs(tester) == [("1", None), ("2", None)]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_row_that_names_another_one_is_not_deleted_between(how: How) -> None:
    with JobTester(joined(how), partitions=3) as tester:
        tester.pipe_inputs([customer("ann", "AT"), customer("bob", "DE"), order("1", "ann", 5)])
        outputs(tester)
        tester.pipe_input(order("1", "bob", 5, at=1))
        assert outputs(tester) == [("1", row("1", "bob", 5, "DE"))]
        tester.pipe_input(customer("ann", "CH", at=1))
        assert outputs(tester) == []


def test_left_join_has_rows_whose_key_is_null_or_that_name_nothing() -> None:
    with JobTester(joined("left"), partitions=2) as tester:
        tester.pipe_inputs([order("1", None, 5), order("2", "ann", 7)])
        assert sorted(outputs(tester)) == [("1", row("1", None, 5, None)), ("2", row("2", "ann", 7, None))]
        tester.pipe_inputs([customer("ann", "AT"), order("1", "ann", 5, at=1)])
        assert sorted(outputs(tester)) == [("1", row("1", "ann", 5, "AT")), ("2", row("2", "ann", 7, "AT"))]
        tester.pipe_inputs([order("1", None, 6, at=2), customer("ann", at=1)])
        assert sorted(outputs(tester)) == [("1", row("1", None, 6, None)), ("2", row("2", "ann", 7, None))]
        tester.pipe_inputs([order("1", gone=True, at=3), order("2", gone=True, at=3)])
        assert sorted(outputs(tester)) == [("1", None), ("2", None)]


@pytest.mark.parametrize("together", [True, False])
def test_row_without_a_foreign_key_is_alone_though_a_right_row_has_its_own_key(together: bool) -> None:
    with JobTester(joined("left")) as tester:
        tester.pipe_input(customer("1", "AT"))
        orders = [order("1", None, 5), order("2", "1", 7)]
        for batch in [orders] if together else [[one] for one in orders]:
            tester.pipe_inputs(batch)
        assert sorted(outputs(tester)) == [("1", row("1", None, 5, None)), ("2", row("2", "1", 7, "AT"))]


def test_inner_join_drops_a_row_whose_key_becomes_null() -> None:
    with JobTester(joined()) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order("1", "ann", 5)])
        tester.pipe_input(order("1", None, 5, at=1))
        assert outputs(tester)[1:] == [("1", None)]


def test_nothing_is_kept_of_rows_that_are_gone() -> None:
    with JobTester(joined("left"), partitions=2) as tester:
        tester.pipe_inputs([customer("ann", "AT"), order("1", "ann", 5), order("2", "bob", 5)])
        tester.pipe_inputs([order("1", "bob", 5, at=1), order("2", "ann", 5, at=1)])
        tester.pipe_inputs([order("1", gone=True, at=2), order("2", gone=True, at=2), customer("ann", at=1)])
        stores = {name: tester.states(name) for name in ("out-left", "out-foreign", "out")}
        assert stores == {"out-left": {}, "out-foreign": {}, "out": {}}


def test_key_that_is_a_number() -> None:
    orders = table("orders", schema="id BIGINT, customer BIGINT", key="id")
    customers = table("customers", schema="customer INT, country STRING", key="customer")
    job = StatefulJob("tested", orders.join(customers, on="customer").sink("out"))
    with JobTester(job) as tester:
        tester.pipe_input(InputRecord({"customer": 7, "country": "AT"}, key="7", topic="customers"))
        tester.pipe_input(InputRecord({"id": 1, "customer": 7}, key="1", topic="orders"))
        assert outputs(tester) == [("1", {"customer": 7, "id": 1, "country": "AT"})]


def test_table_with_itself() -> None:
    staff = table("staff", schema="id STRING, name STRING, boss STRING", key="id")
    bosses = staff.select("id AS boss", "name AS boss_name")
    job = StatefulJob("tested", staff.join(bosses, on="boss", how="left").sink("out"))
    with JobTester(job, partitions=2) as tester:
        for id_, name, boss in (("2", "Bob", "1"), ("1", "Ann", None), ("3", "Eve", "2")):
            row_ = {"id": id_, "name": name, "boss": boss}
            tester.pipe_input(InputRecord(row_, key=id_, topic="staff", timestamp_ms=T0))
        found = dict(outputs(tester))
        assert {key: value["boss_name"] for key, value in found.items()} == {"1": None, "2": "Ann", "3": "Bob"}


def test_what_is_joined_is_joined_again_filtered_and_grouped() -> None:
    countries = table("countries", schema="country STRING, region STRING", key="country")
    spent = (
        stream("sales", "id STRING, customer STRING, amount BIGINT", key="id")
        .group_by("id")
        .aggregate(F.last("customer").alias("customer"), F.sum("amount").alias("amount"), name="sales")
    )
    regions = (
        spent.join(CUSTOMERS, on="customer", name="by-customer")
        .join(countries, on="country", name="by-country")
        .filter("amount > 1")
        .group_by("region")
        .aggregate(F.sum("amount").alias("amount"))
    )
    with JobTester(StatefulJob("tested", regions.sink("out")), partitions=2) as tester:
        for country, region in (("AT", "EU"), ("CH", "EFTA")):
            tester.pipe_input(InputRecord({"country": country, "region": region}, key=country, topic="countries"))
        tester.pipe_inputs([customer("ann", "AT"), customer("bob", "CH")])
        for id_, name, amount in (("1", "ann", 5), ("2", "bob", 7), ("3", "ann", 1), ("1", "bob", 2)):
            value = {"id": id_, "customer": name, "amount": amount}
            tester.pipe_input(InputRecord(value, key=id_, topic="sales"))
        found = dict(outputs(tester))
        assert found == {"EU": None, "EFTA": {"region": "EFTA", "amount": 14}}


# -- tasks that are behind ------------------------------------------------------------------------------------------


@contextmanager
def behind(tester: JobTester, tasks: Collection[TaskId]) -> Iterator[None]:
    """Some tasks process nothing for a while."""
    unprocessed = tester._unprocessed  # noqa: SLF001
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            tester,
            "_unprocessed",
            lambda stage: (r for r in unprocessed(stage) if TaskId(stage.number, r.partition) not in tasks),
        )
        yield
    tester._process(())  # noqa: SLF001


def test_row_that_was_deleted_is_no_more_though_the_task_of_a_former_foreign_key_is_behind() -> None:
    with JobTester(joined(), partitions=2) as tester:
        tester.pipe_inputs([customer("ann", "AT"), customer("tom", "DE")])
        with behind(tester, [TaskId(2, 1)]):
            for at, name in enumerate(["ann", "tom", "ann"]):
                tester.pipe_input(order("1", name, 5, at))
            tester.pipe_input(order("1", at=3, gone=True))
            assert outputs(tester)[-1] == ("1", None)
        assert dict(outputs(tester)).get("1") is None
        assert tester.states("out") == {}


# -- against plain Python, and where micro-batches end --------------------------------------------------------------


def drawn(seed: int, number: int) -> list[InputRecord]:
    """Random changes of both tables, late ones and deletions among them."""
    chance = random.Random(seed)
    records = list[InputRecord]()
    for n in range(number):
        at = 10 * n - chance.choice([0, 0, 0, 15, 200])
        if chance.random() < 0.4:
            records.append(customer(chance.choice("xyz"), chance.choice(["AT", "DE", None]), at))
        else:
            id_, name = chance.choice("abcde"), chance.choice(["x", "y", "z", None])
            records.append(order(id_, name, n, at, gone=chance.random() < 0.2))
    return records


def oracle(records: Sequence[InputRecord], how: How) -> dict[str, Any]:
    """The newest row of each key by time, and what the left ones name."""
    kept: dict[tuple[str, str], tuple[int, Any]] = {}
    for record in records:
        place = (str(record.topic), str(record.key))
        assert record.timestamp_ms is not None
        if place not in kept or record.timestamp_ms >= kept[place][0]:
            kept[place] = (record.timestamp_ms, record.value)
    found = {}
    for (topic, key), (_, value) in kept.items():
        if topic == "orders" and value is not None:
            right = kept.get(("customers", value["customer"]), (0, None))[1]
            if right is not None or how == "left":
                country = right["country"] if right else None
                found[key] = row(key, value["customer"], value["amount"], country)
    return found


@pytest.mark.parametrize("how", ["inner", "left"])
def test_rows_are_those_that_name_each_other(how: How) -> None:
    seed = random.SystemRandom().randrange(2**32)
    chance, records, done, there = random.Random(seed), drawn(seed, 250), 0, dict[str, Any]()
    with JobTester(joined(how), partitions=3) as tester:
        tasks = [TaskId(stage, partition) for stage in (2, 3) for partition in range(3)]
        while done < len(records):
            with behind(tester, chance.sample(tasks, chance.choice([0, 1, 2]))):
                for _ in range(chance.choice([2, 10, 20])):
                    size = chance.choice([1, 1, 2, 9])
                    tester.pipe_inputs(records[done : done + size])
                    done += size
            there.update(outputs(tester))
            found = {key: value for key, value in there.items() if value is not None}
            assert found == oracle(records[:done], how), f"seed {seed}, {done} records"


@pytest.mark.parametrize("how", ["inner", "left"])
def test_join_on_a_foreign_key_does_not_depend_on_micro_batches(how: How) -> None:
    seed = random.SystemRandom().randrange(2**32)
    check_batching(joined(how), drawn(seed, 30), seed=seed, cuts=4, partitions=2)


# -- what cannot be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "how", "right", "why"),
    [
        ("amount", "inner", CUSTOMERS, r"on='amount', and the key of the table 'customers' is 'customer'"),
        (["customer"], "inner", CUSTOMERS, r"on=\['customer'\]: give the name of one column"),
        ("customer", "outer", CUSTOMERS, r"how='outer': choose one of 'inner', 'left': a row of the right table that"),
        ("customer", "inner", table("customers", "customer STRING, amount INT", "customer"), r"two columns the name"),
    ],
)
def test_join_that_cannot_be(on: Any, how: How, right: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        ORDERS.join(right, on=on, how=how)


def test_key_with_two_texts_is_refused() -> None:
    prices = table("prices", schema="id STRING, price DOUBLE", key="id")
    names = table("names", schema="price DOUBLE, name STRING", key="price")
    job = StatefulJob("tested", prices.join(names, on="price").sink("out"))
    with pytest.raises(ConfigurationError, match=r"foreign key of type .*double.*cast it with with_column"):
        JobTester(job)
