from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.planner.compile import compile_job
from airflow_provider.streaming.planner.compiled_job import SourceSpec
from airflow_provider.streaming.terms.argument_check import duration_ms, duration_text
from airflow_provider.streaming.terms.windows import SessionWindow, Window
from tests.builders import job_of_result, spark_types, topic_facts

SCHEMA = "customer STRING, amount DOUBLE, at TIMESTAMP, ms BIGINT"
HOUR = window("at", "1 hour")
TIMED = stream("orders", schema=SCHEMA, key="customer", event_time="at", watermark="1 hour")


def source_of(job: StatefulJob) -> SourceSpec:
    return compile_job(job, topic_facts(job, partitions=2), spark_types()).stage(0).source


def job(windows: Any = HOUR, event_time: str | None = "at", watermark: str | None = "10 minutes") -> StatefulJob:
    orders = stream("orders", schema=SCHEMA, key="customer", event_time=event_time, watermark=watermark)
    return job_of_result(orders.group_by("customer", windows).aggregate(F.count().alias("n")))


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1 hour", 3_600_000),
        ("90 seconds", 90_000),
        ("1 day 12 hours", 129_600_000),
        ("INTERVAL 2 Weeks", 1_209_600_000),
        ("250 milliseconds", 250),
        ("5minutes", 300_000),
    ],
)
def test_durations_are_read_as_spark_does(text: str, ms: int) -> None:
    assert duration_ms("window()", text) == ms
    assert duration_ms("window()", duration_text(ms)) == ms


@pytest.mark.parametrize("text", ["1 month", "hour", "0 seconds", "-1 hour", "1 fortnight", "", 5, None])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ConfigurationError, match=r"window\(\) got .*10 minutes"):
        duration_ms("window()", text)


@pytest.mark.parametrize("text", ["3660001 days", "15250284452 weeks", "99999999999999 weeks", f"{'9' * 5000} hours"])
def test_duration_that_no_two_records_are_apart_is_refused_where_it_stands(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"window\(\) got '[\w ]+': give at most 10,000 years"):
        duration_ms("window()", text)
    with pytest.raises(ConfigurationError, match=r"stream\(watermark=...\) got .* at most 10,000 years"):
        stream("orders", schema="id STRING, at BIGINT", key="id", event_time="at", watermark=text)

    assert duration_ms("window()", "3660000 days") == 3_660_000 * 86_400_000


def test_windows_are_values() -> None:
    assert Window(column="at", size_ms=3_600_000, slide_ms=3_600_000) == HOUR
    assert window("at", "1 hour", "15 minutes").slide_ms == 900_000
    assert window("at", "1 day", None, "6 hours").offset_ms == 21_600_000
    assert session_window("at", "5 minutes") == SessionWindow(column="at", gap_ms=300_000)
    assert [w.text for w in (HOUR, window("at", "60 minutes", "1 hour"), window("at", "1 hour", "15 minutes"))] == [
        "window(at, 1 hour)",
        "window(at, 1 hour)",
        "window(at, 1 hour, 15 minutes)",
    ]


@pytest.mark.parametrize(
    ("slide", "start"), [("2 hours", None), (None, "1 hour"), ("15 minutes", "15 minutes")], ids=str
)
def test_windows_with_gaps_or_without_a_first_are_refused(slide: str | None, start: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"window\(\) got"):
        window("at", "1 hour", slide, start)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: job(watermark=None), "without watermark="),
        (lambda: job(event_time=None, watermark=None), "the source has no event time"),
        (lambda: job(event_time="ms"), "the source's event time is 'ms'"),
        (lambda: job(event_time="customer", windows=window("customer", "1 hour")), "'customer' of type STRING"),
        (lambda: job(event_time="then", windows=window("then", "1 hour")), "'then', which does not exist"),
        (lambda: TIMED.group_by("customer", HOUR, session_window("at", "1 hour")), "one window"),
        (
            lambda: stream("orders", schema=SCHEMA, key="customer").group_by("customer").aggregate(
                F.count(), emit="close"
            ),
            "without windows",
        ),
        (lambda: TIMED.group_by("customer", HOUR).aggregate(F.count().alias("window")), "a result named 'window'"),
        (
            lambda: TIMED.group_by("customer", session_window("at", "1 hour")).aggregate(F.first("amount")),
            "in a session",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_before_spark_starts(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_time_of_the_record_is_an_event_time() -> None:
    orders = stream("orders", schema="customer STRING", key="customer", watermark="0 seconds")
    grouped = orders.group_by("customer", window("_source.timestamp", "1 hour"))
    source = source_of(job_of_result(grouped.aggregate(F.count())))
    assert source.decoded_by_worker
    assert source.keeps_timestamps


def test_column_of_milliseconds_and_a_timestamp_are_decoded_by_the_worker() -> None:
    plain = stream("o", schema="k STRING, ms BIGINT", key="k", event_time="ms", watermark="1 day")
    grouped = plain.group_by("k", window("ms", "1 hour"))
    assert source_of(job_of_result(grouped.aggregate(F.count()))).decoded_by_worker
    assert source_of(job()).decoded_by_worker
