"""What an operation makes is a stream or a table again."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, Table, session_window, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.testing import InputRecord, JobTester

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS

BIDS: Final = stream(
    "bids", schema="auction BIGINT, bidder STRING, price BIGINT, at BIGINT", event_time="at", watermark="0 seconds"
)


def _bid(auction: int, price: int, at_ms: int, bidder: str = "ann") -> InputRecord:
    return InputRecord({"auction": auction, "bidder": bidder, "price": price, "at": at_ms}, topic="bids")


def _iso(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _run(job: StatefulJob, *records: InputRecord, sink: str | None = None) -> list[Any]:
    with JobTester(job) as tester:
        tester.pipe_inputs(records)
        return [record.value for record in tester.read_output(sink)]


def test_windows_of_windows_count_each_hour_in_the_day_that_it_is_of() -> None:
    hourly = BIDS.group_by("auction", window("at", "1 hour")).aggregate(
        F.count().alias("bids"), emit="close", name="hourly"
    )
    busy = hourly.filter("bids > 1", name="quiet_hours")
    daily = busy.group_by("auction", window("window", "1 day")).aggregate(
        F.count().alias("hours"), F.max("bids").alias("most"), emit="close"
    )
    last_hour = _DAY_MS - _HOUR_MS
    found = _run(
        StatefulJob("app", daily.sink("daily")),
        _bid(7, 1, last_hour), _bid(7, 2, last_hour + 1), _bid(7, 3, last_hour + 2),
        _bid(7, 1, _DAY_MS), _bid(7, 1, 3 * _DAY_MS), _bid(7, 1, 3 * _DAY_MS + 1),
        _bid(7, 1, 6 * _DAY_MS), _bid(7, 1, 6 * _DAY_MS + 1), _bid(7, 1, 9 * _DAY_MS),
    )  # fmt: skip
    assert found[0] == {
        "auction": "7", "window": {"start": _iso(0), "end": _iso(_DAY_MS)}, "hours": 1, "most": 3,
    }  # fmt: skip


def test_changes_of_a_table_are_rows_with_the_types_of_its_columns() -> None:
    totals = BIDS.group_by("auction").aggregate(F.sum("price").alias("spent"), name="totals")
    assert isinstance(totals, Table)
    dear = totals.to_stream().filter("spent > 10 AND auction > 3", name="cheap").select("auction", "spent + 1 AS more")
    job = StatefulJob("app", dear.sink("dear", key="auction"), totals.sink("all"))

    assert _run(job, _bid(7, 8, 1), _bid(7, 8, 2), _bid(1, 99, 3), sink="dear")[-1] == {"auction": 7, "more": 17}


def test_stream_meets_a_table_of_aggregates() -> None:
    totals = BIDS.group_by("auction").aggregate(F.sum("price").alias("spent"), name="totals")
    views = stream("views", schema="auction BIGINT, viewer STRING")
    job = StatefulJob("app", views.join(totals, on="auction").sink("seen"))
    with JobTester(job) as tester:
        tester.pipe_inputs([_bid(7, 8, 1), _bid(7, 9, 2)])
        tester.pipe_input(InputRecord({"auction": 7, "viewer": "eve"}, topic="views"))
        assert [record.value for record in tester.read_output()] == [{"auction": 7, "viewer": "eve", "spent": 17}]


def test_what_two_sinks_use_is_made_once() -> None:
    totals = BIDS.group_by("auction").aggregate(F.sum("price").alias("spent"), name="totals")
    job = StatefulJob("app", totals.sink("all"), totals.to_stream().filter("spent > 10", name="cheap").sink("dear"))
    stages = [(stage.name, stage.outputs) for stage in job.stages]
    assert stages == [
        ("totals-repartition", ("app-totals-repartition",)),
        ("totals", ("all", "app-dear-aggregate-repartition")),
        ("dear", ("dear",)),
    ]


def test_key_of_several_columns_comes_out_as_those_columns_with_their_types() -> None:
    spent = BIDS.group_by("auction", "bidder").aggregate(F.sum("price").alias("spent"), name="spent")
    top = spent.to_stream().group_by("bidder").aggregate(F.max("auction").alias("last"))
    assert _run(StatefulJob("app", top.sink("out")), _bid(7, 8, 1), _bid(10, 8, 2))[-1] == {"bidder": "ann", "last": 10}


def test_rows_of_a_function_go_on_once_their_columns_are_named() -> None:
    def spread(key: str, rows: list[dict[str, Any]], state: Any) -> list[dict[str, Any]]:
        return [{"half": row["price"] / 2} for row in rows]

    halves = BIDS.group_by("auction").process(spread, columns=["price"], name="halves", schema="half DOUBLE")
    job = StatefulJob("app", halves.group_by("auction").aggregate(F.sum("half").alias("sum")).sink("out"))
    assert _run(job, _bid(7, 8, 1), _bid(7, 5, 2))[-1] == {"auction": "7", "sum": 6.5}
    unknown = BIDS.group_by("auction").process(spread, columns=["price"], name="halves")
    with pytest.raises(ConfigurationError, match=r"columns of what process\(\) of bids makes are not known: process"):
        unknown.filter("half > 1", name="small")


def test_rows_without_duplicates_go_on_in_their_time() -> None:
    once = BIDS.drop_duplicates("auction", "price", within="1 hour", name="once")
    hourly = once.group_by("auction", window("at", "1 hour")).aggregate(F.count().alias("bids"), emit="close")
    found = _run(
        StatefulJob("app", hourly.sink("out")), _bid(7, 8, 1), _bid(7, 8, 2), _bid(7, 9, 3), _bid(7, 9, _DAY_MS)
    )
    assert [row["bids"] for row in found] == [2]


def test_sessions_that_became_one_leave_deletions_which_are_counted() -> None:
    sessions = BIDS.group_by("auction", session_window("at", "1 minute")).aggregate(F.count().alias("bids"), name="s")
    ends = sessions.to_stream().select("auction", "window.end AS until", "bids").sink("out", key="auction")
    with JobTester(StatefulJob("app", ends)) as tester:
        for at_ms in (100_000, 30_000_000, 29_980_000):
            tester.pipe_input(_bid(7, 1, at_ms))
        assert tester.counts.filtered["deleted"] >= 0


def test_table_of_a_topic_has_no_changes_to_read() -> None:
    customers = table("customers", schema="id STRING, name STRING", key="id")
    with pytest.raises(ConfigurationError, match=r"table of the topic 'customers': read that topic with stream\(\)"):
        customers.to_stream()
