"""What becomes of a record that cannot be processed."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.errors import ConfigurationError, DecodeError, ProcessError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.streaming.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.process import Process, ValueState
from airflow_provider.streaming.screening import screen


def total(key: str, rows: list[dict[str, Any]], state: ValueState) -> list[dict[str, Any]]:
    before = state.get() or []
    for row in rows:
        before.append(row["amount"])
        if row["amount"] < 0:
            raise ValueError(f"{row['amount']} is negative")
    state.update(before)
    return [{"amounts": len(before)}]


def rows_of(*rows: tuple[int, bytes | None, int, str | None]) -> pa.Table:
    offsets, keys, amounts, corrupt = zip(*rows, strict=True)
    return pa.table(
        {
            "__offset": pa.array(offsets, pa.int64()),
            "__source_key": pa.array(keys, pa.binary()),
            "__key": pa.array(keys, pa.binary()),
            "__corrupt": pa.array(corrupt, pa.string()),
            "amount": pa.array(amounts, pa.int64()),
        }
    )


@pytest.mark.parametrize(
    ("on_error", "topic"),
    [
        pytest.param(OnError.DEAD_LETTER, None, id="dead letter without a topic"),
        pytest.param(OnError.SKIP, "bad", id="skip with a topic"),
        pytest.param(OnError.FAIL, "bad", id="fail with a topic"),
    ],
)
def test_half_a_policy_is_refused(on_error: OnError, topic: str | None) -> None:
    with pytest.raises(ConfigurationError, match="on_error"):
        ErrorPolicy(on_error, topic)


def test_screen_parts_good_rows_from_bad_and_names_each() -> None:
    rows = rows_of(
        (1, b"a", 1, None),
        (2, b"a", 1, "not JSON"),
        (3, None, 1, None),
        (4, RESERVED_PREFIX + b"x", 1, None),
        (5, b"\xff", 1, None),
        (6, b"b", 1, None),
        (7, b"", 1, None),
    )
    good, failures = screen("orders", 3, "customer", rows)
    assert good.column("__offset").to_pylist() == [1, 6, 7]
    assert [failure.offset for failure in failures] == [2, 3, 4, 5]
    assert isinstance(failures[0].error, DecodeError)
    for failure in failures:
        assert (failure.error.topic, failure.error.partition, failure.error.offset) == ("orders", 3, failure.offset)


def test_rows_that_raise_are_left_out_and_the_others_of_their_key_are_not() -> None:
    operation = Process(total, ("amount",))
    rows = rows_of((1, b"a", 1, None), (2, b"a", -2, None), (3, b"b", 5, None), (4, b"a", 3, None))
    grouped = operation.group("key", rows)
    changes = grouped.apply([b"[9]", None], tolerant=True)
    assert dict(changes.state) == {b"a": b"[9,1,3]", b"b": b"[5]"}
    assert [failure.offset for failure in changes.failed] == [2]
    assert "-2 is negative" in changes.failed[0].error.reason
    assert "ValueError" in changes.failed[0].stack


def test_key_of_which_every_row_raises_keeps_its_state() -> None:
    grouped = Process(total, ("amount",)).group("key", rows_of((1, b"a", -1, None)))
    changes = grouped.apply([b"[9]"], tolerant=True)
    assert list(changes.state) == []
    assert list(changes.output) == []
    assert len(changes.failed) == 1


def test_function_that_does_not_return_counts_as_raised() -> None:
    def stuck(key: str, rows: list[dict[str, Any]], state: ValueState) -> None:
        if rows[0]["amount"] == 13:
            while True:
                time.sleep(0.001)
        state.update(rows[0]["amount"])

    grouped = Process(stuck, ("amount",), timeout_s=0.2).group("key", rows_of((1, b"a", 13, None), (2, b"b", 1, None)))
    changes = grouped.apply([None, None], tolerant=True)
    assert dict(changes.state) == {b"b": b"1"}
    assert "did not return within 0.2 s" in changes.failed[0].error.reason
    with pytest.raises(ProcessError, match="did not return"):
        grouped.apply([None, None])
