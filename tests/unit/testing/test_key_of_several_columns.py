"""A key of several columns in what comes out: each of them by its name, with its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError, RecordError
from airflow_provider.streaming import StatefulJob, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.language.grouped import GroupedStream
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table
from airflow_provider.testing import InputRecord, JobTester

PAID = stream(
    "paid", schema="card BIGINT, country STRING, amount BIGINT, at BIGINT", event_time="at", watermark="0 seconds"
)
TEXT = '["7","AT"]'


def spent(grouped: GroupedStream, **given: Any) -> Stream | Table:
    made: Stream | Table = grouped.aggregate(F.sum("amount").alias("spent"), **given)
    return made


def total(key: str, rows: list[Any], state: Any) -> list[dict[str, Any]]:
    assert key == TEXT
    return [{"spent": sum(row["amount"] for row in rows)}]


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(lambda: spent(PAID.group_by("card", "country")), id="combined"),
        pytest.param(lambda: spent(PAID.group_by("card", "country"), combine=False), id="row-by-row"),
        pytest.param(lambda: PAID.group_by("card", "country").process(total, columns=["amount"]), id="process"),
        pytest.param(lambda: spent(PAID.group_by("card", "country", window("at", "1 hour"))), id="window"),
        pytest.param(lambda: spent(PAID.group_by("card", "country", session_window("at", "1 hour"))), id="session"),
    ],
)
def test_output_has_the_columns_of_the_key_and_the_records_key_is_as_it_was(
    result: Callable[[], Stream | Table],
) -> None:
    with JobTester(StatefulJob("app", result().sink("out"))) as tester:
        tester.pipe_input(InputRecord({"card": 7, "country": "AT", "amount": 5, "at": 1_000}))
        (record,) = tester.read_output()

    assert list(record.value)[:2] == ["card", "country"]
    assert {name: value for name, value in record.value.items() if name != "window"} == {
        "card": "7",
        "country": "AT",
        "spent": 5,
    }
    assert record.key is not None
    assert record.key.partition("@")[0] == TEXT


def test_result_named_as_a_column_of_the_key_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names a result 'country', as the key column of"):
        PAID.group_by("card", "country").aggregate(F.count().alias("country"))


def test_row_of_a_function_with_another_value_in_a_column_of_the_key_is_a_record_error() -> None:
    def other(key: str, rows: list[Any], state: Any) -> list[dict[str, Any]]:
        return [{"country": "DE"}]

    job = StatefulJob("app", PAID.group_by("card", "country").process(other, columns=["amount"]).sink("out"))
    with JobTester(job) as tester, pytest.raises(RecordError, match="the column 'country' of an output row is 'DE'"):
        tester.pipe_input({"card": 7, "country": "AT", "amount": 5, "at": 1_000})
