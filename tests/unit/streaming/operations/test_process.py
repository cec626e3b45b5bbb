from __future__ import annotations

import collections
import datetime as dt
import json
import math
import pickle
import time
from collections.abc import Iterable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from airflow_provider.errors import ConfigurationError, ProcessError
from airflow_provider.streaming.json.user_values import decode_state, encode_state
from airflow_provider.streaming.operations.batch import Changes, FunctionError
from airflow_provider.streaming.operations.process import Process, ProcessFunction, Row, ValueState
from tests.unit.streaming.operations.merging import merged


def apply(
    function: ProcessFunction, rows: list[tuple[str, int]], old: dict[str, Any] | None = None, tolerant: bool = False
) -> Changes:
    """Call a function with rows of (key, amount) at offsets 100, 101, ..., over stored states."""
    table = pa.table(
        {
            "__key": pa.array([key.encode() for key, _ in rows], pa.binary()),
            "__offset": pa.array(range(100, 100 + len(rows)), pa.int64()),
            "amount": pa.array([amount for _, amount in rows], pa.int64()),
        }
    )
    stored = {key.encode(): encode_state(value) for key, value in (old or {}).items()}
    return merged(Process(function, ("amount",)), table, stored, key_name="customer", tolerant=tolerant)


def states(changes: Changes) -> dict[str, Any]:
    return {key.decode(): None if value is None else decode_state(value) for key, value in changes.state}


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

    assert states(changes) == {"a": 13, "b": 5}
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
    assert states(generated) == {"a": 1}
    assert silenced.output == []
    assert states(silenced) == {"a": {"nested": [1, None, "é"]}}


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

    assert states(apply(renew, [("a", 1)], {"a": "old"})) == {"a": "new"}


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


def returns_no_json(key: str, rows: list[Row], state: ValueState) -> Iterable[Row]:
    return [{"x": object()}] if key == "bad" else []


def returns_no_rows(key: str, rows: list[Row], state: ValueState) -> Any:
    return 7 if key == "bad" else None


@pytest.mark.parametrize("function", [raises, raises_late, returns_no_json, returns_no_rows])
def test_function_that_goes_wrong_names_key_and_offset(function: ProcessFunction) -> None:
    with pytest.raises(FunctionError) as caught:
        apply(function, [("good", 1), ("bad", 2), ("good", 3), ("bad", 4)])

    assert (caught.value.key, caught.value.offset) == ("bad", 101)
    assert "in the job's function" in caught.value.reason
    assert caught.value.__cause__ is not None


def changes_its_rows(key: str, rows: list[Row], state: ValueState) -> None:
    for row in rows:
        row["amount"] *= 100
    total(key, rows, state)
    if any(row["amount"] == 200 for row in rows):
        raise ValueError("bad row")


def consumes_its_rows(key: str, rows: list[Row], state: ValueState) -> None:
    while rows:
        amount = rows.pop(0).pop("amount")
        if amount == 2:
            raise ValueError("bad row")
        state.update((state.get() or 0) + amount * 100)


def changes_what_its_rows_hold(key: str, rows: list[Row], state: ValueState) -> None:
    for row in rows:
        row["items"].append(row["items"][0] * 100)
        if row["items"][-1] == 200:
            raise ValueError("bad row")
    state.update((state.get() or 0) + sum(sum(row["items"][1:]) for row in rows))


@pytest.mark.parametrize("function", [changes_its_rows, consumes_its_rows])
def test_function_may_change_its_rows_although_another_row_raises(function: ProcessFunction) -> None:
    changes = apply(function, [("a", 1), ("a", 2), ("a", 3)], tolerant=True)

    assert states(changes) == {"a": 400}
    assert [failure.offset for failure in changes.failed] == [101]


def test_function_may_change_what_its_rows_hold_although_another_row_raises() -> None:
    items = pa.array([[1], [2], [3]], pa.list_(pa.int64()))

    changes = processed({"items": items}, changes_what_its_rows_hold, tolerant=True)

    assert states(changes) == {"k": 400}
    assert [failure.offset for failure in changes.failed] == [1]


def does_not_return_for_three(key: str, rows: list[Row], state: ValueState) -> None:
    while any(row["amount"] == 3 for row in rows):
        time.sleep(0.01)


@pytest.mark.parametrize("function", [changes_its_rows, consumes_its_rows])
def test_error_names_the_first_row_that_raises(function: ProcessFunction) -> None:
    with pytest.raises(FunctionError, match="bad row") as caught:
        apply(function, [("a", 5), ("b", 1), ("a", 1), ("a", 2), ("a", 7)])

    assert (caught.value.key, caught.value.offset) == ("a", 103)
    assert isinstance(caught.value.__cause__, ValueError)


def test_error_names_the_first_row_that_the_function_does_not_return_for() -> None:
    with pytest.raises(FunctionError, match="did not return") as caught:
        processed({"amount": pa.array([5, 1, 3, 7])}, does_not_return_for_three, timeout_s=1)

    assert caught.value.offset == 2


def takes_one_row(key: str, rows: list[Row], state: ValueState) -> None:
    if len(rows) > 1:
        raise ValueError("too many")


def test_error_that_no_row_raises_alone_names_all_rows_of_the_call() -> None:
    with pytest.raises(FunctionError, match=r"too many .*3 rows, from offset 100 to 103") as caught:
        apply(takes_one_row, [("a", 1), ("b", 1), ("a", 2), ("a", 3)])

    assert caught.value.offset == 100
    assert isinstance(caught.value.__cause__, ValueError)


def test_error_crosses_to_the_driver_whole() -> None:
    error = ProcessError("orders", 3, 17, "k", "ValueError in the job's function: no")

    copied = pickle.loads(pickle.dumps(error))

    assert type(copied) is ProcessError
    assert str(copied) == "orders[3] at offset 17, key 'k': ValueError in the job's function: no"
    assert vars(copied) == vars(error)


def test_state_of_another_operation_is_refused() -> None:
    table = pa.table({"__key": pa.array([b"a"]), "__offset": pa.array([1]), "amount": pa.array([1])})

    with pytest.raises(ConfigurationError, match=r"'a' is not one of process.*new application id"):
        merged(Process(total, ("amount",)), table, {b"a": b"\x01\x01\0\0"})


def test_keys_that_are_no_text_keep_their_bytes() -> None:
    table = pa.table({"__key": pa.array([b"\xe9"]), "__offset": pa.array([1]), "amount": pa.array([1])})

    assert merged(Process(total, ("amount",)), table).state == [(b"\xe9", encode_state(1))]


def counts_by_number(key: str, rows: list[Row], state: ValueState) -> Iterable[Row]:
    counts = state.get() or {}
    for row in rows:
        counts[row["amount"]] = counts.get(row["amount"], 0) + 1
    state.update(counts)
    return []


def test_state_has_the_types_of_the_batch_before() -> None:
    first = apply(counts_by_number, [("a", 7)])
    second = apply(counts_by_number, [("a", 7)], states(first))

    assert states(second) == {"a": {7: 2}}


def test_state_that_is_json_is_read_and_written_anew() -> None:
    table = pa.table({"__key": pa.array([b"a"]), "__offset": pa.array([1]), "amount": pa.array([1])})

    changes = merged(Process(total, ("amount",)), table, {b"a": json.dumps(10).encode()})

    assert states(changes) == {"a": 11}
    assert changes.state[0][1] == encode_state(11)


def keeps_a_counter(key: str, rows: list[Row], state: ValueState) -> None:
    if key == "bad" and any(row["amount"] > 2 for row in rows):
        state.update({"seen": collections.Counter("ab")})
    else:
        state.update(1)


def test_state_that_would_not_come_back_is_an_error_of_its_record_and_names_the_type() -> None:
    rows = [("good", 1), ("bad", 2), ("bad", 4)]
    with pytest.raises(FunctionError, match=r"cannot be kept: state\['seen'\] is a collections.Counter") as caught:
        apply(keeps_a_counter, rows)
    tolerated = apply(keeps_a_counter, rows, tolerant=True)

    assert (caught.value.key, caught.value.offset) == ("bad", 102)
    assert [failure.offset for failure in tolerated.failed] == [102]
    assert states(tolerated) == {"good": 1, "bad": 1}


def returns_numbers(key: str, rows: list[Row], state: ValueState) -> Iterable[Row]:
    yield {"x": math.nan, "y": [math.inf, {"z": -math.inf}], "d": Decimal("1.50"), "n": None, "e": Decimal("NaN")}


def test_output_has_numbers_as_the_output_of_aggregates_has_them() -> None:
    ((_, written),) = apply(returns_numbers, [("a", 1)]).output

    assert written == (b'{"customer":"a","x":"NaN","y":["Infinity",{"z":"-Infinity"}],"d":1.50,"n":null,"e":"NaN"}')


def processed(
    columns: dict[str, pa.Array], function: ProcessFunction, timeout_s: float | None = None, *, tolerant: bool = False
) -> Changes:
    size = len(next(iter(columns.values())))
    table = pa.table({"__key": pa.array([b"k"] * size), "__offset": pa.array(range(size), pa.int64()), **columns})
    return merged(Process(function, tuple(columns), timeout_s), table, tolerant=tolerant)


def keeps_its_row(key: str, rows: list[Row], state: ValueState) -> None:
    state.update(rows[-1])


def test_row_of_any_types_can_be_kept_as_it_is() -> None:
    row = {
        "moment": dt.datetime(2026, 1, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")),
        "local": dt.datetime(2026, 1, 1, 12),
        "day": dt.date(2026, 1, 1),
        "price": Decimal("12.50"),
        "raw": b"\xff",
        "nested": {"tags": ["a", None], "sizes": {"x": 1}, "inner": {"at": dt.date(2026, 1, 2)}},
    }
    nested = pa.struct(
        [
            ("tags", pa.list_(pa.string())),
            ("sizes", pa.map_(pa.string(), pa.int64())),
            ("inner", pa.struct([("at", pa.date32())])),
        ]
    )
    kinds = [
        pa.timestamp("us", "Europe/Berlin"),
        pa.timestamp("us"),
        pa.date32(),
        pa.decimal128(20, 2),
        pa.binary(),
        nested,
    ]
    columns = {name: pa.array([value], kind) for (name, value), kind in zip(row.items(), kinds, strict=True)}

    assert states(processed(columns, keeps_its_row)) == {"k": row}


def test_value_that_python_cannot_hold_is_an_error_of_its_record() -> None:
    days = pa.array([1, 99_999_999, 3], pa.int32()).cast(pa.date32())

    with pytest.raises(FunctionError, match="after the year 9999") as caught:
        processed({"day": days}, keeps_its_row)
    tolerated = processed({"day": days}, keeps_its_row, tolerant=True)

    assert caught.value.offset == 1
    assert [failure.offset for failure in tolerated.failed] == [1]
    assert states(tolerated) == {"k": {"day": dt.date(1970, 1, 4)}}
