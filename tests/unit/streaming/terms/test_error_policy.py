"""What becomes of a record that cannot be processed."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.errors import ConfigurationError, DecodeError, ProcessError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.streaming import stream
from airflow_provider.streaming.operations.process import ValueState
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.worker.step.row_validation import validate_rows
from airflow_provider.testing import Counts, JobTester
from tests.builders import job_of_result

ORDERS = stream("orders", schema="customer STRING, amount BIGINT", key="customer").group_by("customer")


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
    good, failures = validate_rows("orders", 3, "customer", rows)
    assert good.column("__offset").to_pylist() == [1, 6, 7]
    assert [failure.offset for failure in failures] == [2, 3, 4, 5]
    assert isinstance(failures[0].error, DecodeError)
    for failure in failures:
        assert (failure.error.topic, failure.error.partition, failure.error.offset) == ("orders", 3, failure.offset)


def order(customer: str, amount: int) -> dict[str, Any]:
    return {"customer": customer, "amount": amount}


def test_rows_that_raise_are_left_out_and_the_others_of_their_key_are_not() -> None:
    with JobTester(job_of_result(ORDERS.process(total, ["amount"])).on_error("dead_letter", "bad")) as tester:
        tester.pipe_input(order("a", 9))

        tester.pipe_inputs([order("a", 1), order("a", -2), order("b", 5), order("a", 3)])

        assert tester.states() == {"a": [9, 1, 3], "b": [5]}
        (letter,) = tester.dead_letters()
        assert letter.offset == 2
        assert "-2 is negative" in letter.message
        assert "ValueError" in letter.stack
        assert tester.counts == Counts(processed=5, filtered={}, failed=1)


def test_key_of_which_every_row_raises_keeps_its_state() -> None:
    with JobTester(job_of_result(ORDERS.process(total, ["amount"]), sink="totals").on_error("skip")) as tester:
        tester.pipe_input(order("a", 9))
        tester.read_output()

        tester.pipe_input(order("a", -1))

        assert tester.states() == {"a": [9]}
        assert tester.read_output() == []
        assert tester.counts.failed == 1


def stuck(key: str, rows: list[dict[str, Any]], state: ValueState) -> None:
    if rows[0]["amount"] == 13:
        while True:
            time.sleep(0.001)
    state.update(rows[0]["amount"])


def test_function_that_does_not_return_counts_as_raised() -> None:
    job = job_of_result(ORDERS.process(stuck, ["amount"], timeout_s=0.2))

    with JobTester(job.on_error("dead_letter", "bad")) as tester:
        tester.pipe_inputs([order("a", 13), order("b", 1)])
        assert tester.states() == {"b": 1}
        (letter,) = tester.dead_letters()
        assert "did not return within 0.2 s" in letter.message
    with JobTester(job) as tester, pytest.raises(ProcessError, match="did not return"):
        tester.pipe_inputs([order("a", 13), order("b", 1)])
