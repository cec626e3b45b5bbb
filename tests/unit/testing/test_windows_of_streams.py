"""Windows over a stream, with and without an internal topic before them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.testing import InputRecord, JobTester, check_batching

SCHEMA = "customer STRING, country STRING, amount BIGINT, at BIGINT"
HOUR_MS = 3_600_000
SPENT = F.sum("amount").alias("spent")


def orders(**more: Any) -> Stream:
    return stream("orders", schema=SCHEMA, event_time="at", watermark="10 minutes", **more)


def order(customer: str, country: str, amount: int, at: int, partition: int = 0) -> InputRecord:
    value = {"customer": customer, "country": country, "amount": amount, "at": at}
    return InputRecord(value, partition=partition)


ORDERS = [
    order("a", "AT", 1, 10 * HOUR_MS),
    order("b", "AT", 2, 11 * HOUR_MS + 5),
    order("a", "IT", 4, 11 * HOUR_MS + 6),
    order("c", "AT", 8, 11 * HOUR_MS - 1),
    order("c", "AT", 16, 11 * HOUR_MS + 600_000),
    order("a", "AT", 32, 11 * HOUR_MS - 1),
]


@pytest.mark.parametrize("emit", ["update", "close"])
def test_windows_behind_an_internal_topic_are_those_of_the_records_own_times(emit: Any) -> None:
    by_country = orders().group_by("country", window("at", "1 hour")).aggregate(SPENT, name="hourly", emit=emit)
    job = StatefulJob("shop", by_country.sink("out"))

    with JobTester(job) as tester:
        tester.pipe_inputs(ORDERS[:3])
        tester.promote_standby()
        tester.pipe_inputs(ORDERS[3:])
        last = {record.key: record.value for record in tester.read_output()}

        assert last["AT@1970-01-01T10:00:00.000Z"] == {
            "country": "AT",
            "window": {"start": "1970-01-01T10:00:00.000Z", "end": "1970-01-01T11:00:00.000Z"},
            "spent": 9,
        }
        assert set(last) == (
            {"AT@1970-01-01T10:00:00.000Z"}
            if emit == "close"
            else {"AT@1970-01-01T10:00:00.000Z", "AT@1970-01-01T11:00:00.000Z", "IT@1970-01-01T11:00:00.000Z"}
        )
        assert (tester.counts.processed, tester.counts.late) == (6, 1)
        assert [stored["spent"] for stored in tester.state("IT")] == [4]


def test_result_does_not_depend_on_micro_batches() -> None:
    by_country = orders().group_by("country", window("at", "1 hour")).aggregate(SPENT, F.count().alias("n"))
    sessions = orders().group_by("country", session_window("at", "20 minutes")).aggregate(SPENT, name="sessions")

    check_batching(StatefulJob("shop", by_country.sink("out")), ORDERS, cuts=3)
    check_batching(StatefulJob("shop", sessions.sink("out")), ORDERS, cuts=3)


def test_windows_by_the_records_key_need_no_internal_topic() -> None:
    hourly = orders(key="customer").group_by("customer", window("at", "1 hour")).aggregate(SPENT)
    (stage,) = StatefulJob("shop", hourly.sink("out")).stages

    assert stage.windowed
    assert stage.event_time is not None
    assert stage.event_time.delay_ms == 600_000


def test_changelogs_of_windows_are_made_so_that_they_can_be_cut() -> None:
    hourly = orders().group_by("country", window("at", "1 hour")).aggregate(SPENT, name="hourly")
    total = orders().group_by("country").aggregate(SPENT, name="total")
    job = StatefulJob("shop", hourly.sink("hours"), total.sink("totals"))

    assert {topic.name for topic in job.description().topics if topic.windowed} == {"shop-hourly-changelog"}
    assert "by window(at, 1 hour), each when it changes" in job.describe()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(
            lambda: stream("o", schema=SCHEMA).group_by("country", window("at", "1 hour")), "no event time", id="none"
        ),
        pytest.param(
            lambda: orders().group_by("country", window("amount", "1 hour")), "event time is 'at'", id="another"
        ),
        pytest.param(
            lambda: orders().select("country").group_by("country", window("at", "1 hour")), "'at'", id="selected-away"
        ),
        pytest.param(
            lambda: orders().group_by(window("at", "1 hour")),
            "and no column: state is kept by a key",
            id="window-alone",
        ),
        pytest.param(
            lambda: orders().group_by("country", window("at", "1 hour"), window("at", "2 hours")),
            "one window",
            id="two-windows",
        ),
        pytest.param(
            lambda: orders().group_by("country").aggregate(SPENT, emit="close"), "without windows", id="emit-alone"
        ),
        pytest.param(lambda: stream("o", schema=SCHEMA, event_time="at"), "watermark", id="no-watermark"),
    ],
)
def test_what_does_not_fit_together_is_refused(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()
