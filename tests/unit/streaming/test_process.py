from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.errors import ConfigurationError, ProcessError
from airflow_provider.streaming.operation import Changes
from airflow_provider.streaming.process import Process, ProcessFunction, Row, ValueState


def apply(function: ProcessFunction, rows: list[tuple[str, int]], old: dict[str, Any] | None = None) -> Changes:
    """Call a function with rows of (key, amount) at offsets 100, 101, ..., over stored states."""
    table = pa.table(
        {
            "__key": pa.array([key.encode() for key, _ in rows], pa.binary()),
            "__offset": pa.array(range(100, 100 + len(rows)), pa.int64()),
            "amount": pa.array([amount for _, amount in rows], pa.int64()),
        }
    )
    grouped = Process(function, ("amount",)).group("customer", table)
    stored = {key.encode(): json.dumps(value).encode() for key, value in (old or {}).items()}
    return grouped.apply([stored.get(key) for key in grouped.keys])


def total(key: str, rows: list[Row], state: ValueState) -> Iterable[Row]:
    state.update((state.get() or 0) + sum(row["amount"] for row in rows))
    return [{"total": state.get()}]


def test_function_sees_each_key_once_with_its_rows_in_order() -> None:
    seen = []

    def look(key: str, rows: list[Row], state: ValueState) -> None:
        seen.append((key, rows))

    apply(look, [("b", 1), ("a", 2), ("b", 3), ("b", 2)])

    assert sorted(seen) == [("a", [{"amount": 2}]), ("b", [{"amount": 1}, {"amount": 3}, {"amount": 2}])]


def test_updated_state_is_written_and_found_again() -> None:
    changes = apply(total, [("a", 1), ("b", 5), ("a", 2)], {"a": 10})

    assert dict(changes.state) == {b"a": b"13", b"b": b"5"}
    assert sorted(changes.output, key=str) == [
        (b"a", b'{"customer":"a","total":13}'),
        (b"b", b'{"customer":"b","total":5}'),
    ]


def test_function_may_be_a_generator_or_return_nothing() -> None:
    def generate(key: str, rows: list[Row], state: ValueState) -> Iterable[Row]:
        for row in rows:
            yield {"seen": row["amount"]}
        state.update(1)

    def silent(key: str, rows: list[Row], state: ValueState) -> None:
        state.update({"nested": [1, None, "é"]})

    generated, silenced = apply(generate, [("a", 1), ("a", 2)]), apply(silent, [("a", 1)])

    assert [value for _, value in generated.output] == [b'{"customer":"a","seen":1}', b'{"customer":"a","seen":2}']
    assert generated.state == [(b"a", b"1")]
    assert silenced.output == []
    assert [(key, json.loads(value or b"")) for key, value in silenced.state] == [(b"a", {"nested": [1, None, "é"]})]


@pytest.mark.parametrize(
    ("before", "written"),
    [
        pytest.param({"a": 1}, [(b"a", None)], id="a-tombstone-where-there-was-a-state"),
        pytest.param({}, [], id="nothing-where-there-was-none"),
    ],
)
def test_cleared_state_writes(before: dict[str, int], written: list[tuple[bytes, None]]) -> None:
    def clear(key: str, rows: list[Row], state: ValueState) -> None:
        state.clear()
        assert not state.exists()

    assert apply(clear, [("a", 1)], before).state == written


def test_state_that_is_cleared_and_updated_is_updated() -> None:
    def renew(key: str, rows: list[Row], state: ValueState) -> None:
        state.clear()
        state.update("new")

    assert apply(renew, [("a", 1)], {"a": "old"}).state == [(b"a", b'"new"')]


def test_state_that_is_only_looked_at_is_not_written() -> None:
    def mutate(key: str, rows: list[Row], state: ValueState) -> None:
        assert state.exists()
        state.get().append(2)

    assert apply(mutate, [("a", 1)], {"a": [1]}).state == []


def test_update_with_none_points_to_clear() -> None:
    with pytest.raises(ValueError, match=r"clear\(\)"):
        ValueState(None).update(None)


def raises(key: str, rows: list[Row], state: ValueState) -> None:
    if key == "bad":
        raise ZeroDivisionError("by zero")


def raises_late(key: str, rows: list[Row], state: ValueState) -> Iterable[Row]:
    yield {}
    raises(key, rows, state)


def keeps_no_json(key: str, rows: list[Row], state: ValueState) -> None:
    if key == "bad":
        state.update(object())


def returns_no_json(key: str, rows: list[Row], state: ValueState) -> Iterable[Row]:
    return [{"x": object()}] if key == "bad" else []


def returns_no_rows(key: str, rows: list[Row], state: ValueState) -> Any:
    return 7 if key == "bad" else None


@pytest.mark.parametrize("function", [raises, raises_late, keeps_no_json, returns_no_json, returns_no_rows])
def test_function_that_goes_wrong_names_key_and_offset(function: ProcessFunction) -> None:
    with pytest.raises(ProcessError) as caught:
        apply(function, [("good", 1), ("bad", 2), ("good", 3), ("bad", 4)])

    assert (caught.value.key, caught.value.offset) == ("bad", 101)
    assert "in the job's function" in caught.value.reason
    assert caught.value.__cause__ is not None


def test_error_crosses_to_the_driver_whole() -> None:
    error = ProcessError("orders", 3, 17, "k", "ValueError in the job's function: no")

    copied = pickle.loads(pickle.dumps(error))

    assert type(copied) is ProcessError
    assert str(copied) == "orders[3] at offset 17, key 'k': ValueError in the job's function: no"
    assert vars(copied) == vars(error)


def test_state_of_another_operation_is_refused() -> None:
    table = pa.table({"__key": pa.array([b"a"]), "__offset": pa.array([1]), "amount": pa.array([1])})
    grouped = Process(total, ("amount",)).group("customer", table)

    with pytest.raises(ConfigurationError, match=r"'a' is not JSON.*new application id"):
        grouped.apply([b"\x01\x01\0\0"])


def test_keys_that_are_no_text_keep_their_bytes() -> None:
    table = pa.table({"__key": pa.array([b"\xe9"]), "__offset": pa.array([1]), "amount": pa.array([1])})
    grouped = Process(total, ("amount",)).group("customer", table)

    assert grouped.apply([None]).state == [(b"\xe9", b"1")]
