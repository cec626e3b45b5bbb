"""Aggregates, compared with a pass over all rows in plain Python."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation
from airflow_provider.streaming.operations.batch import FunctionError
from tests.unit.streaming.operations.merging import merged

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)

TYPES: dict[str, pa.DataType] = {
    "big": pa.int64(),
    "small": pa.int32(),
    "real": pa.float64(),
    "single": pa.float32(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "moment": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
    "price": pa.decimal128(20, 2),
    "wide": pa.decimal128(38, 10),
}

# Doubles whose sums are exact, so that the order of adding does not show.
dyadic = st.integers(-(2**30), 2**30).map(lambda n: n / 8)
strange = st.sampled_from([math.nan, math.inf, -math.inf])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "big": st.integers(-(2**58), 2**58) | st.integers(-5, 5),
    "small": st.integers(-(2**31), 2**31 - 1),
    "real": dyadic | strange,
    "single": st.integers(-(2**20), 2**20).map(lambda n: n / 4) | st.just(math.nan),
    "text": st.text(max_size=6) | st.sampled_from(['quote"d', "back\\slash", "new\nline", "\x00", "é", "😀"]),
    "flag": st.booleans(),
    "day": st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30)),
    "moment": st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)).map(lambda t: t.replace(tzinfo=UTC)),
    "local": st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)),
    "price": st.decimals(-(10**18) + 1, 10**18 - 1, places=2),
    "wide": st.decimals(-(10**26), 10**26, places=10) | st.just(Decimal("1E-10")),
}

Row = dict[str, Any]


def rows_with(*columns: str) -> st.SearchStrategy[list[Row]]:
    fields = {name: st.none() | VALUES[name] for name in columns}
    return st.lists(st.fixed_dictionaries({"key": st.sampled_from("abç"), **fields}), min_size=1, max_size=20)


def batch(rows: Sequence[Row], first_offset: int = 0) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "__key": pa.array([row["key"].encode() for row in rows], pa.binary()),
        "__offset": pa.array(range(first_offset, first_offset + len(rows)), pa.int64()),
    }
    for name, kind in TYPES.items():
        columns[name] = pa.array([row.get(name) for row in rows], kind)
    return pa.table(columns)


class Keys:
    """The state of all keys, as a store would keep it."""

    def __init__(self, *aggregates: Aggregate, number: Callable[[str], Any] = float) -> None:
        self.number = number
        self.operation = Aggregation(aggregates)
        self.state: dict[bytes, bytes] = {}
        self.output: dict[str, Row] = {}

    def take(self, table: pa.Table, tolerant: bool = False) -> list[int]:
        """Process a batch; the offsets of the rows that were left out."""
        changes = merged(self.operation, table, self.state, key_name="key", tolerant=tolerant)
        self.state.update({key: value for key, value in changes.state if value is not None})
        for key, value in changes.output:
            assert value is not None
            self.output[key.decode()] = json.loads(value, parse_float=self.number)
        return [failure.offset for failure in changes.failed]


def as_written(value: Any) -> Any:
    """As the JSON output has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dt.datetime):
        zone = "Z" if value.tzinfo else ""
        return f"{value:%Y-%m-%dT%H:%M:%S.%f}".rjust(26, "0") + zone
    if isinstance(value, dt.date):
        return value.isoformat()
    return value


def order(value: Any) -> Any:
    """NaN is the greatest number, as in Spark."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def expected(aggregate: Aggregate, rows: Sequence[Row]) -> Any:
    """One aggregate over all rows of one key, as Spark defines it."""
    if aggregate.column is None:
        return len(rows)
    column = [row[aggregate.column] for row in rows]
    values = [value for value in column if value is not None]
    match aggregate.function:
        case Function.COUNT:
            return len(values)
        case Function.FIRST:
            return next(iter(values if aggregate.ignorenulls else column), None)
        case Function.LAST:
            return next(reversed(values if aggregate.ignorenulls else column), None)
    if not values:
        return None
    match aggregate.function:
        case Function.SUM:
            with localcontext(prec=60):
                return sum(values)
        case Function.MIN:
            return min(values, key=order)
        case Function.MAX:
            return max(values, key=order)
        case _ if isinstance(values[0], Decimal):
            digits = Decimal(1).scaleb(-TYPES[aggregate.column].scale - 4)
            with localcontext(prec=60):
                return (sum(values) / len(values)).quantize(digits, ROUND_HALF_UP)
        case Function.MEAN:
            return sum(float(value) for value in values) / len(values)
    raise AssertionError(f"nobody says here what {aggregate.function} comes to")


def all_of(column: str) -> tuple[Aggregate, ...]:
    """Every aggregate that a column of this type can have."""
    aggregates = [
        F.count().alias("rows"),
        F.count(column),
        F.min(column),
        F.max(column),
        F.first(column),
        F.first(column, ignorenulls=True).alias("first_value"),
        F.last(column),
        F.last(column, ignorenulls=True).alias("last_value"),
    ]
    if column in ("big", "small", "real", "single", "price", "wide"):
        aggregates.append(F.sum(column))
    if column in ("small", "real", "single", "price", "wide"):  # the mean of great integers is not exact
        aggregates.append(F.mean(column))
    return tuple(aggregates)


@pytest.mark.parametrize("column", TYPES)
@settings(max_examples=50)
@given(data=st.data())
def test_any_split_into_batches_equals_one_pass(column: str, data: st.DataObject) -> None:
    rows = data.draw(rows_with(column))
    cuts = data.draw(st.sets(st.integers(1, 19)))
    aggregates = all_of(column)
    keys = Keys(*aggregates, number=Decimal if pa.types.is_decimal(TYPES[column]) else float)
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    for begin, end in itertools.pairwise(edges):
        keys.take(batch(rows[begin:end]))

    for key in {row["key"] for row in rows}:
        of_key = [row for row in rows if row["key"] == key]
        wanted = {a.name: as_written(expected(a, of_key)) for a in aggregates}
        assert keys.output[key] == {"key": key, **wanted}


@settings(max_examples=25)
@given(rows=rows_with(*VALUES), cut=st.integers(1, 19))
def test_repeated_batch_computes_the_same_bytes_from_the_same_state(rows: list[Row], cut: int) -> None:
    operation = Aggregation(tuple(a.alias(f"{c}-{a.name}") for c in TYPES for a in all_of(c)))
    state: dict[bytes, bytes | None] = {}
    for part in (rows[:cut], rows[cut:]):
        if not part:
            continue
        once, twice = (merged(operation, batch(part), state) for _ in range(2))
        assert once == twice
        state.update(once.state)


def test_mean_and_other_aggregates_of_one_column_do_not_disturb_each_other() -> None:
    exact = 2**53 + 1
    keys = Keys(F.mean("big"), F.sum("big"), F.max("big"), F.last("big"))

    keys.take(batch([{"key": "a", "big": exact}, {"key": "a", "big": exact}]))

    output = keys.output["a"]
    assert (output["sum(big)"], output["max(big)"], output["last(big)"]) == (2 * exact, exact, exact)
    assert output["mean(big)"] == pytest.approx(exact)


SUMS: dict[str, tuple[str, list[Any], list[int]]] = {
    "greatest": ("big", [2**62, 2**62 - 1, 1, -1, 1, 1], [2, 5]),
    "least": ("big", [-(2**62), -(2**62), -1, 1, -1, -1], [2, 5]),
    "far-beyond": ("big", [2**63 - 1, 2**63 - 1, 2**63 - 1, -(2**63)], [1, 2]),
    "decimal": ("wide", [Decimal(6) * 10**27, Decimal(5) * 10**27, Decimal(3) * 10**27], [1]),
    "decimal-just-below": ("wide", [Decimal(-5) * 10**27, Decimal(-5) * 10**27, Decimal("1E-10")], [1]),
    "decimal-to-the-last-digit": ("wide", [Decimal("9" * 28 + "." + "9" * 10), Decimal("1E-10"), Decimal(-1)], [1]),
}


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(("column", "values", "over"), SUMS.values(), ids=SUMS)
def test_record_that_a_sum_has_no_room_for_is_left_out_whole_wherever_batches_end(
    column: str, values: list[Any], over: list[int], size: int
) -> None:
    keys = Keys(F.count().alias("n"), F.sum(column).alias("total"), F.sum("small"), number=Decimal)
    rows = [{"key": "a", column: value, "small": 1} for value in values]
    failed = []
    for begin in range(0, len(rows), size):
        failed += keys.take(batch(rows[begin : begin + size], begin), tolerant=True)

    left = [value for at, value in enumerate(values) if at not in over]
    assert failed == over
    with localcontext(prec=60):
        assert keys.output["a"] == {"key": "a", "n": len(left), "total": sum(left), "sum(small)": len(left)}


def test_sum_without_room_names_the_record_and_leaves_other_keys_alone() -> None:
    rows = [{"key": "b", "big": 2**62}, {"key": "a", "big": 2**62}, {"key": "a", "big": 2**62}]

    with pytest.raises(FunctionError, match="sum of 'big' has no room for the value in BIGINT") as caught:
        Keys(F.sum("big")).take(batch(rows, 40))
    keys = Keys(F.sum("big"))
    failed = keys.take(batch(rows, 40), tolerant=True)

    assert (caught.value.offset, caught.value.key) == (42, "a")
    assert failed == [42]
    assert {key: result["sum(big)"] for key, result in keys.output.items()} == {"a": 2**62, "b": 2**62}


def test_batch_that_is_left_out_whole_writes_nothing() -> None:
    keys = Keys(F.sum("big"))
    keys.take(batch([{"key": "a", "big": 2**63 - 1}]))
    before = dict(keys.state)

    assert keys.take(batch([{"key": "a", "big": 1}], 7), tolerant=True) == [7]
    assert keys.state == before


@settings(max_examples=50)
@given(
    values=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), min_size=1, max_size=12),
    size=st.integers(1, 12),
)
def test_what_a_sum_leaves_out_does_not_depend_on_where_batches_end(values: list[int], size: int) -> None:
    keys, failed, total, over = Keys(F.sum("big")), list[int](), 0, list[int]()
    for at, value in enumerate(values):
        if -(2**63) <= total + value < 2**63:
            total += value
        else:
            over.append(at)
    rows = [{"key": "a", "big": value} for value in values]
    for begin in range(0, len(rows), size):
        failed += keys.take(batch(rows[begin : begin + size], begin), tolerant=True)

    assert (failed, keys.output["a"]["sum(big)"]) == (over, total)


def test_float_is_written_with_its_own_digits_and_its_sum_is_a_double_as_in_spark() -> None:
    keys = Keys(*all_of("single"))

    keys.take(batch([{"key": "a", "single": 0.1}]))

    result = keys.output["a"]
    assert {result[f"{name}(single)"] for name in ("min", "max", "first", "last")} == {0.1}
    assert result["sum(single)"] == result["mean(single)"] == float(np.float32(0.1))


def test_mean_of_decimals_has_four_digits_more_and_is_rounded_half_up() -> None:
    keys = Keys(F.mean("price"), number=Decimal)

    keys.take(batch([{"key": "a", "price": Decimal(n)} for n in ("0.01", "0.00", "0.01")]))

    assert str(keys.output["a"]["mean(price)"]) == "0.006667"


def test_two_aggregates_of_one_kind_on_different_columns_keep_their_places() -> None:
    keys = Keys(F.sum("big"), F.sum("real"), F.max("text"), F.min("text"), F.count("text"))

    keys.take(batch([{"key": "a", "big": 1, "real": 0.5, "text": "x"}]))
    keys.take(batch([{"key": "a", "big": 2, "real": 0.25, "text": "longer"}]))

    assert keys.output["a"] == {
        "key": "a",
        "sum(big)": 3,
        "sum(real)": 0.75,
        "max(text)": "x",
        "min(text)": "longer",
        "count(text)": 2,
    }


def test_output_names_the_key_and_comes_once_a_key_and_batch() -> None:
    operation = Aggregation((F.count().alias("n"),))
    changes = merged(operation, batch([{"key": key} for key in "abab"]), key_name="tailnum")

    assert sorted(map(str, changes.output)) == sorted(
        str((key.encode(), f'{{"tailnum":"{key}","n":2}}'.encode())) for key in "ab"
    )


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30))
def test_keys_come_in_the_order_of_the_store(keys: list[str]) -> None:
    rows: list[Row] = [{"key": key, "big": 1} for key in keys]

    changes = merged(Aggregation((F.count().alias("n"), F.sum("big"))), batch(rows))

    assert [key for key, _ in changes.state] == sorted({key.encode() for key in keys})
    assert {key.decode(): json.loads(value or b"")["n"] for key, value in changes.output} == Counter(keys)


def test_columns_are_those_that_the_aggregates_read_once_each() -> None:
    assert Aggregation((F.count().alias("n"), F.sum("x"), F.mean("x"), F.first("y"))).columns == ("x", "y")


REFUSED: dict[str, Callable[[], Aggregate]] = {
    "sum-of-text": lambda: F.sum("text"),
    "mean-of-text": lambda: F.mean("text"),
    "sum-of-boolean": lambda: F.sum("flag"),
    "sum-of-date": lambda: F.sum("day"),
    "mean-of-timestamp": lambda: F.mean("moment"),
    "max-of-bytes": lambda: F.max("raw"),
    "last-of-struct": lambda: F.last("struct"),
}


@pytest.mark.parametrize("aggregate", REFUSED.values(), ids=REFUSED)
def test_column_that_cannot_be_kept_is_refused_by_name(aggregate: Callable[[], Aggregate]) -> None:
    table = (
        batch([{"key": "a"}])
        .append_column("raw", pa.array([b"x"], pa.binary()))
        .append_column("struct", pa.array([{"a": 1}]))
    )
    refused = aggregate().alias("the result")

    with pytest.raises(ConfigurationError, match=r"'the result'.*Cast the column"):
        merged(Aggregation((refused,)), table)


def test_values_of_any_type_are_counted() -> None:
    table = batch([{"key": "a"}]).append_column("raw", pa.array([b"x"], pa.binary()))

    changes = merged(Aggregation((F.count("raw"),)), table, key_name="key")

    assert changes.output == [(b"a", b'{"key":"a","count(raw)":1}')]


@pytest.mark.parametrize(
    "aggregates",
    [pytest.param((), id="none"), pytest.param((F.sum("x"), F.sum("x")), id="two-of-one-name")],
)
def test_aggregation_needs_results_each_with_a_name_of_its_own(aggregates: tuple[Aggregate, ...]) -> None:
    with pytest.raises(ConfigurationError, match="alias"):
        Aggregation(aggregates)


def test_state_of_other_aggregates_is_refused() -> None:
    keys = Keys(F.count().alias("n"))
    keys.take(batch([{"key": "a"}]))

    with pytest.raises(ConfigurationError, match="new application id or store name"):
        merged(Aggregation((F.count().alias("n"), F.sum("big"))), batch([{"key": "a"}]), keys.state)


def test_avg_is_the_mean_under_sparks_other_name() -> None:
    assert F.avg("x") == F.mean("x").alias("avg(x)")
