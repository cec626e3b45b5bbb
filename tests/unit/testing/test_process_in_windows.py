"""A function that is called with a key's rows of a window, when that is over."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, Final

import pytest

from airflow_provider.errors import ConfigurationError, RecordError
from airflow_provider.streaming import StatefulJob, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.testing import JobTester

HOUR_MS: Final = 3_600_000

ORDERS: Final = stream(
    "orders",
    "customer STRING, product STRING, amount DOUBLE, at BIGINT",
    key="customer",
    event_time="at",
    watermark="10 minutes",
)
HOURLY: Final = ORDERS.group_by("customer", window("at", "1 hour"))


def order(at_ms: int, product: str = "tea", amount: float | None = 1.0) -> dict[str, Any]:
    return {"customer": "ann", "product": product, "amount": amount, "at": at_ms}


def in_order(_: str, rows: list[dict[str, Any]], window: Any) -> Iterator[dict[str, Any]]:
    yield {"rows": [[row["at"], row["product"]] for row in rows], "hour": window.start.hour}


def test_function_is_called_once_with_all_rows_of_a_window_in_their_order() -> None:
    calls: list[tuple[str, int, dt.datetime]] = []

    def called(key: str, rows: list[dict[str, Any]], window: Any) -> list[dict[str, Any]]:
        calls.append((key, len(rows), window.end))
        return list(in_order(key, rows, window))

    job = StatefulJob("app", HOURLY.process(called, ["at", "product", "amount"]).sink("out"))
    with JobTester(job) as tester:
        for at_ms in (HOUR_MS + 500, HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS - 1):  # the last one is late, and waited for
            tester.pipe_input(order(at_ms))
        assert not calls
        tester.restart(store="empty")
        tester.promote_standby()
        tester.pipe_input(order(2 * HOUR_MS + 600_000))
        tester.pipe_input(order(HOUR_MS))  # too late
        assert tester.counts.late == 1
        assert [(record.key, record.value) for record in tester.read_output()] == [
            (
                "ann@1970-01-01T01:00:00.000Z",
                {
                    "customer": "ann",
                    "window": {"start": "1970-01-01T01:00:00.000Z", "end": "1970-01-01T02:00:00.000Z"},
                    "rows": [[HOUR_MS, "tea"], [HOUR_MS + 500, "tea"], [2 * HOUR_MS - 1, "tea"]],
                    "hour": 1,
                },
            )
        ]
        assert calls == [("ann", 3, dt.datetime(1970, 1, 1, 2, tzinfo=dt.UTC))]


def test_rows_of_a_session_come_together_whichever_of_its_parts_came_first() -> None:
    sessions = ORDERS.group_by("product", session_window("at", "1 minute")).process(in_order, ["at", "product"])
    with JobTester(StatefulJob("app", sessions.sink("out"))) as tester:
        for at_ms in (100_000, 20_000, 60_000, 2 * HOUR_MS):
            tester.pipe_input(order(at_ms))
        (record,) = tester.read_output()
        assert [at_ms for at_ms, _ in record.value["rows"]] == [20_000, 60_000, 100_000]


def test_null_comes_first_and_open_windows_are_shown() -> None:
    job = StatefulJob("app", HOURLY.process(in_order, ["amount", "at"], name="rows").sink("out"))
    with JobTester(job) as tester:
        tester.pipe_inputs([order(1, amount=2.0), order(2, amount=None), order(3, amount=float("-0.5"))])
        (state,) = tester.state("ann", "rows")
        assert [row["amount"] for row in state["rows"]] == [None, -0.5, 2.0]
        assert state["window"]["end"] == dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC)


def test_what_it_returns_goes_on_in_the_time_of_its_window() -> None:
    def products(_: str, rows: list[dict[str, Any]], window: Any) -> Iterator[dict[str, Any]]:
        for product in sorted({row["product"] for row in rows}):
            yield {"product": product}

    bought = HOURLY.process(products, ["product"], schema="product STRING", name="bought")
    daily = bought.group_by("product", window("window", "1 day")).aggregate(F.count().alias("hours"), emit="close")
    with JobTester(StatefulJob("app", daily.sink("daily"))) as tester:
        for at_ms in (0, 1, 23 * HOUR_MS, 50 * HOUR_MS):
            tester.pipe_input(order(at_ms))
        assert [(record.value["product"], record.value["hours"]) for record in tester.read_output()] == [("tea", 2)]


def test_row_beyond_the_limit_is_an_error_of_its_record() -> None:
    with JobTester(StatefulJob("app", HOURLY.process(in_order, ["at", "product"], limit=2).sink("out"))) as tester:
        tester.pipe_inputs([order(1), order(2)])
        with pytest.raises(RecordError, match=r"offset 2.*more than 2 of one key: give process\(limit="):
            tester.pipe_input(order(3))


def test_function_that_raises_stops_the_task_until_it_is_corrected() -> None:
    def wrong(key: str, rows: list[dict[str, Any]], window: Any) -> list[dict[str, Any]]:
        return [{"mean": rows[0]["amount"] / 0}]

    def job(function: Any) -> StatefulJob:
        made = HOURLY.process(function, ["at", "product", "amount"], name="rows").sink("out")
        return StatefulJob("app", made).on_error("dead_letter", topic="letters")

    with JobTester(job(wrong)) as tester:
        tester.pipe_input(order(1))
        with pytest.raises(ConfigurationError, match=r"key 'ann' and the window from 1970-01-01T00:00.* ZeroDivision"):
            tester.pipe_input(order(3 * HOUR_MS))
        assert tester.dead_letters() == []
        tester.restart(job=job(in_order))
        assert [record.value["rows"] for record in tester.read_output()] == [[[1, "tea"]]]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"outputs": {"more": "n INT"}}, "in windows got outputs="),
        ({"on_timer": lambda key, time_ms, state: None}, "in windows got on_timer="),
        ({"version": 2}, "in windows got version="),
        ({"schema": "window INT"}, "none named 'window'"),
        ({"limit": 0}, "limit"),
    ],
)
def test_what_does_not_go_with_a_window_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        HOURLY.process(in_order, ["at", "product"], **given)


def test_limit_without_a_window_and_a_function_of_two_arguments_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="limit=5 and no window"):
        ORDERS.group_by("customer").process(lambda key, rows, state: None, ["at"], limit=5)
    with pytest.raises(ConfigurationError, match=r"calls it as function\(key, rows, window\)"):
        HOURLY.process(lambda key, rows: None, ["at"])  # type: ignore[arg-type]


def test_description_says_what_is_called_when() -> None:
    job = StatefulJob("app", HOURLY.process(in_order, ["at", "product"]).sink("out"))
    assert "process in_order(at, product) by window(at, 1 hour), each when it is over" in job.describe()


def test_function_and_limit_may_change_and_columns_may_not() -> None:
    def job(columns: list[str], limit: int) -> StatefulJob:
        return StatefulJob("app", HOURLY.process(in_order, columns, limit=limit, name="rows").sink("out"))

    with JobTester(job(["at", "product"], 1)) as tester:
        tester.pipe_input(order(1))
        tester.restart(job=job(["at", "product"], 2))
        tester.pipe_input(order(2))
        with pytest.raises(ConfigurationError, match="'rows'"):
            tester.restart(job=job(["at", "product", "amount"], 2))
