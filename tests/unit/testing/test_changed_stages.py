"""Jobs of several stages that change: what one refuses, every one before it refuses, and undoing it loses nothing.

A stage that went on would write in the changed form what the one behind it reads in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.errors import ConfigurationError, RecordError
from airflow_provider.streaming import StatefulJob, session_window, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.terms.windows import SessionWindow, Window
from airflow_provider.testing import InputRecord, JobTester

MINUTE = 60_000


def orders(amount: str = "BIGINT") -> Any:
    return stream("orders", schema=f"id STRING, customer STRING, country STRING, amount {amount}, price BIGINT")


def customers(limit: str = "BIGINT", **time_or_place: Any) -> Any:
    schema = f"customer STRING, city STRING, limit_ {limit}, at BIGINT"
    return table("customers", schema=schema, key="customer", **time_or_place)


def per_country(*more: Aggregate, name: str = "spent", **combine: bool) -> StatefulJob:
    counts = orders().group_by("country").aggregate(F.count().alias("n"), *more, name=name, **combine)
    return StatefulJob("shop", counts.sink("per-country"))


def gather(key: str, rows: Any, state: Any) -> Any:
    state.update([*(state.get() or []), *(row["amount"] for row in rows)])
    yield {"amounts": state.get()}


def gathered(amount: str = "BIGINT", function: Callable[..., Any] = gather) -> StatefulJob:
    """The function would take its rows with either type."""
    grouped = orders(amount).group_by("country").process(function, ["amount"], name="gathered")
    return StatefulJob("shop", grouped.sink("gathered"))


def with_city(amount: str = "BIGINT", limit: str = "BIGINT", **time_or_place: Any) -> StatefulJob:
    joined = orders(amount).join(customers(limit, **time_or_place), on="customer", how="left", name="with-city")
    return StatefulJob("shop", joined.sink("out"))


def per_city(most: Aggregate) -> StatefulJob:
    joined = orders().join(customers(), on="customer", name="with-city")
    return StatefulJob("shop", joined.group_by("city").aggregate(most, name="cities").sink("per-city"))


AMOUNT, PRICE = F.sum("amount").alias("spent"), F.sum("price").alias("spent")
REFUSED: dict[str, tuple[StatefulJob, StatefulJob, str]] = {
    "another-aggregate-of-a-name": (
        per_country(AMOUNT),
        per_country(PRICE),
        r"behind 'shop-spent-repartition', the aggregate 'spent': sum\(amount\) of type bigint became sum\(price\)",
    ),
    "combined-no-more": (
        per_country(AMOUNT),
        per_country(AMOUNT, combine=False),
        "behind 'shop-spent-repartition', combine=True became combine=False",
    ),
    "column-of-another-type": (gathered(), gathered("STRING"), "the column 'amount': bigint became string"),
    "table-in-every-task": (
        with_city(),
        with_city(broadcast=True),
        "behind 'shop-with-city-repartition', a table's rows for a stream became all of a table's rows",
    ),
    "column-of-a-join-of-another-type": (
        with_city(),
        with_city("STRING", "STRING"),
        "behind 'shop-with-city-repartition', the column 'limit_': bigint became string",
    ),
    "table-by-its-own-time": (
        with_city(),
        with_city(event_time="at"),
        "the time of the table 'customers': that of the record became event_time='at'",
    ),
    "three-stages-on": (
        per_city(F.max("amount").alias("most")),
        per_city(F.max("price").alias("most")),
        "behind 'shop-with-city-repartition', behind 'shop-cities-joined-repartition', behind "
        r"'shop-cities-repartition', the aggregate 'most': max\(amount\) of type bigint became max\(price\)",
    ),
}


def rows_of_customers() -> list[InputRecord]:
    return [
        InputRecord(
            {"customer": name, "city": city, "limit_": 5, "at": 1},
            topic="customers",
            key=name,
            partition=number,
            timestamp_ms=1000 + number,
        )
        for number, (name, city) in enumerate([("ann", "Ulm"), ("bob", "Bonn")])
    ]


def some_orders(round_: int, partitions: int = 2) -> list[InputRecord]:
    return [
        InputRecord(
            {"id": f"{round_}-{n}", "customer": name, "country": country, "amount": round_, "price": 100},
            topic="orders",
            key=f"{round_}-{n}",
            partition=n % partitions,
            timestamp_ms=2000,
        )
        for n, (name, country) in enumerate([("ann", "DE"), ("bob", "AT"), ("ann", "AT"), ("bob", "DE")])
    ]


def started(job: StatefulJob) -> JobTester:
    """With a first commit of every task that reads the users' topics."""
    tester = JobTester(job, partitions=2)
    if "customers" in {stage.source for stage in job.description().stages}:
        tester.pipe_inputs(rows_of_customers())
    tester.pipe_inputs(some_orders(1))
    return tester


def results(tester: JobTester) -> list[str]:
    return sorted(str(record.value) for record in tester.read_output())


@pytest.mark.parametrize(("before", "after", "why"), REFUSED.values(), ids=REFUSED)
def test_change_that_one_stage_refuses_is_refused_by_those_before_it_and_undone_without_a_trace(
    before: StatefulJob, after: StatefulJob, why: str
) -> None:
    with started(before) as unchanged:
        unchanged.pipe_inputs(some_orders(2))
        unchanged.pipe_inputs(some_orders(3))
        expected, counted = results(unchanged), unchanged.counts

    with started(before) as tester:
        with pytest.raises(ConfigurationError, match=why):
            tester.restart(job=after)
        with pytest.raises(ConfigurationError, match=why):
            tester.pipe_inputs(some_orders(2))
        tasks = tester._active.tasks.values()  # noqa: SLF001
        assert {task.state for task in tasks if task.commit_record is not None} == {TaskState.FAILED}

        tester.restart(job=before)
        tester.pipe_inputs(some_orders(3))

        assert results(tester) == expected
        assert tester.counts == counted


def failing(key: str, rows: Any, state: Any) -> Any:
    if rows:
        raise ValueError("not written yet")
    yield state


@pytest.mark.parametrize("partitions", [1, 2])
def test_task_without_a_commit_takes_nothing_under_a_change_that_another_task_refuses(partitions: int) -> None:
    """What the first version left for it between two stages is not of the changed one's form."""
    with JobTester(gathered(function=failing), partitions=partitions) as tester:
        with pytest.raises(RecordError, match="not written yet"):
            tester.pipe_inputs(some_orders(1, partitions))

        with pytest.raises(ConfigurationError, match="the column 'amount': bigint became string"):
            tester.restart(job=gathered("STRING"))
        with pytest.raises(ConfigurationError, match="the column 'amount': bigint became string"):
            tester.pipe_inputs(some_orders(2, partitions))
        assert tester.read_output() == []

        tester.restart(job=gathered())
        assert tester.states() == {"AT": [1, 1, 2, 2], "DE": [1, 1, 2, 2]}


def test_aggregate_that_is_added_behind_an_internal_topic_goes_on_in_every_stage() -> None:
    with started(per_country(AMOUNT)) as tester:
        tester.restart(job=per_country(AMOUNT, F.max("price").alias("most")))
        tester.pipe_inputs(some_orders(2))
        tester.restart(job=per_country(AMOUNT))
        tester.pipe_inputs(some_orders(3))

        assert tester.states() == {"AT": {"n": 6, "spent": 12}, "DE": {"n": 6, "spent": 12}}


def test_store_of_another_name_is_no_change_and_the_first_one_does_not_come_back_without_what_it_missed() -> None:
    with started(per_country(AMOUNT)) as tester:
        tester.restart(job=per_country(PRICE, name="other"))
        tester.pipe_inputs(some_orders(2))
        assert tester.states() == {"AT": {"n": 2, "spent": 200}, "DE": {"n": 2, "spent": 200}}

        for back in (per_country(PRICE), per_country(AMOUNT)):
            with pytest.raises(ConfigurationError, match=r"stage 1 \(spent\) is put back, and what was to come to it"):
                tester.restart(job=back)
        tester.pipe_inputs(some_orders(3))

        assert tester.states() == {"AT": {"n": 4, "spent": 400}, "DE": {"n": 4, "spent": 400}}


# -- when windows come out -------------------------------------------------------------------------------------------

WINDOWS: dict[str, Window | SessionWindow] = {
    "windows": window("at", "1 minute"),
    "sessions": session_window("at", "1 minute"),
}
Emitted = Callable[[Literal["update", "close"]], StatefulJob]


@pytest.fixture(params=WINDOWS)
def windowed(request: pytest.FixtureRequest) -> Emitted:
    clicks = stream("clicks", schema="user STRING, at BIGINT", key="user", event_time="at", watermark="0 seconds")
    grouped = clicks.group_by("user", WINDOWS[request.param])
    return lambda emit: StatefulJob("clicks", grouped.aggregate(F.count().alias("n"), emit=emit).sink("out"))


def click(user: str, at: int) -> dict[str, Any]:
    return {"user": user, "at": at}


def test_windows_that_would_never_come_out_any_more_are_no_change_that_goes_on(windowed: Emitted) -> None:
    with JobTester(windowed("close")) as tester:
        tester.pipe_inputs([click("ann", 0), click("ann", 5)])

        with pytest.raises(ConfigurationError, match=r'emit="close" became emit="update".*Undo the change'):
            tester.restart(job=windowed("update"))
        tester.restart(job=windowed("close"))
        tester.pipe_input(click("bob", 10 * MINUTE))

        assert [(record.value["user"], record.value["n"]) for record in tester.read_output()] == [("ann", 2)]


def test_windows_that_are_open_come_out_once_more_when_they_are_over(windowed: Emitted) -> None:
    with JobTester(windowed("update")) as tester:
        tester.pipe_inputs([click("old", 0), click("ann", 5 * MINUTE)])
        tester.read_output()

        tester.restart(job=windowed("close"))
        tester.pipe_input(click("bob", 10 * MINUTE))
        tester.pipe_input(click("cara", 20 * MINUTE))

        found = [(record.value["user"], record.value["n"]) for record in tester.read_output()]
        assert found == [("ann", 1), ("bob", 1)]
