"""Aggregates that keep a state by themselves, compared with a pass over all rows in plain Python."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import Aggregator
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation
from airflow_provider.streaming.aggregates.merge_aggregation import MergeAggregation, PartialAggregation
from airflow_provider.streaming.operations.batch import FunctionError
from tests.unit.streaming.aggregates.test_aggregate import TYPES, Keys, Row, as_written, batch, order, rows_with
from tests.unit.streaming.operations.merging import merged

NUMBERS = ("big", "small", "real", "single", "price", "wide")


def ranked(rows: Sequence[Row], column: str, by: str) -> list[Any]:
    """The values of the greatest rows first; a null is less than a value."""
    known = [row for row in rows if row[by] is not None]
    found = sorted(known, key=lambda row: (order(row[by]), *null_least(row[column])))
    return [row[column] for row in reversed(found)]


def null_least(value: Any) -> tuple[Any, ...]:
    return (False,) if value is None else (True, order(value))


def values(rows: Sequence[Row], column: str) -> list[Any]:
    return sorted((row[column] for row in rows if row[column] is not None), key=order)


def different(rows: Sequence[Row], *columns: str) -> list[Any]:
    """Of one column the values, each once; of several their combinations."""
    found = {tuple(map(order, picked)): picked for row in rows if None not in (picked := [row[c] for c in columns])}
    return [found[key] for key in sorted(found)]


def least_by(rows: Sequence[Row], column: str, by: str) -> Any:
    known = [row for row in rows if row[by] is not None]
    if not known:
        return None
    least = min(order(row[by]) for row in known)
    equal = [row[column] for row in known if order(row[by]) == least and row[column] is not None]
    return min(equal, key=order) if equal else None


Expected = Callable[[Sequence[Row], str], Any]
BY = "small"
OF_ANY: dict[str, tuple[Callable[[str], Aggregate], Expected]] = {
    "max_by": (lambda c: F.max_by(c, BY), lambda rows, c: next(iter(ranked(rows, c, BY)), None)),
    "min_by": (lambda c: F.min_by(c, BY), lambda rows, c: least_by(rows, c, BY)),
    "first": (lambda c: F.first(c, by=BY), lambda rows, c: least_by(rows, c, BY)),
    "last": (
        lambda c: F.last(c, ignorenulls=True, by=BY),
        lambda rows, c: next((value for value in ranked(rows, c, BY) if value is not None), None),
    ),
    "top": (lambda c: F.top(c, 3, by=BY), lambda rows, c: ranked(rows, c, BY)[:3]),
    "greatest": (lambda c: F.top(c, 2), lambda rows, c: values(rows, c)[::-1][:2]),
    "list": (lambda c: F.collect_list(c, limit=20), values),
    "set": (lambda c: F.collect_set(c, limit=20), lambda rows, c: [one for (one,) in different(rows, c)]),
    "distinct": (lambda c: F.count_distinct(c), lambda rows, c: len(different(rows, c))),
    "pairs": (lambda c: F.count_distinct(c, BY), lambda rows, c: len(different(rows, c, BY))),
    "about": (lambda c: F.approx_count_distinct(c), lambda rows, c: len(different(rows, c))),
}


def aggregates_of(column: str) -> tuple[Aggregate, ...]:
    return tuple(made(column).alias(name) for name, (made, _) in OF_ANY.items())


def wanted(rows: Sequence[Row], column: str) -> dict[str, Any]:
    results = {name: of_rows(rows, column) for name, (_, of_rows) in OF_ANY.items()}
    return {n: [*map(as_written, r)] if isinstance(r, list) else as_written(r) for n, r in results.items()}


def by_key(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {key: [row for row in rows if row["key"] == key] for key in {row["key"] for row in rows}}


def drawn_cuts(data: st.DataObject, size: int) -> list[tuple[int, int]]:
    cuts = data.draw(st.sets(st.integers(1, 19)))
    return list(itertools.pairwise([0, *sorted(cut for cut in cuts if cut < size), size]))


@pytest.mark.parametrize("column", TYPES)
@settings(max_examples=20)
@given(data=st.data())
def test_any_split_into_batches_comes_to_the_same_results_and_the_same_bytes(column: str, data: st.DataObject) -> None:
    rows = data.draw(rows_with(*{column, BY}))
    number: Any = Decimal if pa.types.is_decimal(TYPES[column]) else float
    whole, cut = (Keys(*aggregates_of(column), number=number) for _ in range(2))

    whole.take(batch(rows))
    for begin, end in drawn_cuts(data, len(rows)):
        cut.take(batch(rows[begin:end]))

    assert cut.output == {key: {"key": key, **wanted(of_key, column)} for key, of_key in by_key(rows).items()}
    assert cut.state == whole.state


@pytest.mark.parametrize("column", TYPES)
@settings(max_examples=10)
@given(data=st.data())
def test_parts_come_to_the_same_wherever_micro_batches_end(column: str, data: st.DataObject) -> None:
    rows = data.draw(rows_with(*{column, BY}))
    aggregates = (*aggregates_of(column), F.collect_list(column, limit=20, filter="flag").alias("flagged"))
    columns = Aggregation(aggregates).columns
    schema = pa.schema([(name, TYPES.get(name, pa.bool_())) for name in columns])
    partial, merge = PartialAggregation(aggregates), MergeAggregation(aggregates).of_rows(schema)
    state: dict[bytes, bytes | None] = {}

    for begin, end in drawn_cuts(data, len(rows)):
        parts = merged(partial, with_flags(batch(rows[begin:end], begin), aggregates[-1])).output
        decoded = merge.decoder.decode(pa.chunked_array([[value for _, value in parts]], pa.binary()))
        assert not decoded.bad
        keys, offsets = pa.array([key for key, _ in parts], pa.binary()), pa.array(range(len(parts)), pa.int64())
        arrived = pa.table({"__key": keys, "__offset": offsets, **decoded.columns})
        state |= dict(merged(merge, arrived, state).state)

    plain = merged(Aggregation(aggregates), with_flags(batch(rows), aggregates[-1]))
    kept = merge.decode_states([value for _, value in sorted(state.items()) if value is not None], schema)
    expected = Aggregation(aggregates).decode_states([value for _, value in plain.state if value is not None], schema)
    assert repr(kept) == repr(expected)


def with_flags(rows: pa.Table, aggregate: Aggregate) -> pa.Table:
    """With the column that Spark makes of the condition."""
    assert aggregate.where is not None
    flags = pa.array([[True, False, None][number % 3] for number in rows.column("__offset").to_pylist()], pa.bool_())
    return rows.append_column(aggregate.where, flags)


# -- numbers --------------------------------------------------------------------------------------------------------

SPREAD = {
    "var_samp": (F.var_samp, statistics.variance, 2),
    "variance": (F.variance, statistics.variance, 2),
    "var_pop": (F.var_pop, statistics.pvariance, 1),
    "stddev_samp": (F.stddev_samp, statistics.stdev, 2),
    "stddev": (F.stddev, statistics.stdev, 2),
    "stddev_pop": (F.stddev_pop, statistics.pstdev, 1),
}


@pytest.mark.parametrize("name", SPREAD)
@settings(max_examples=30)
@given(given_values=st.lists(st.integers(-50, 50), max_size=12), cut=st.integers(0, 12))
def test_spread_of_great_numbers_that_differ_little(name: str, given_values: list[int], cut: int) -> None:
    function, exact, least = SPREAD[name]
    great = [2.0**20 + value for value in given_values]
    keys = Keys(function("real").alias("spread"), F.count().alias("n"))
    rows = [{"key": "a", "real": value} for value in [None, *great]]

    for part in (rows[:cut], rows[cut:]):
        if part:
            keys.take(batch(part))

    found = keys.output["a"]["spread"]
    expected = exact(great) if len(great) >= least else None
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-9))


@settings(max_examples=50)
@given(parts=st.lists(st.lists(st.integers(-9, 9).map(lambda n: 1e9 + n / 8), max_size=5), max_size=6))
def test_spread_of_parts_is_that_of_all(parts: list[list[float]]) -> None:
    aggregator = F.variance("x").aggregator
    assert aggregator is not None
    states = []
    for part in parts:
        state = aggregator.zero()
        for value in part:
            state = aggregator.add(state, value)
        states.append(aggregator.decode(aggregator.encode(state)))

    whole = aggregator.zero()
    for state in states:
        whole = aggregator.merge(whole, state)

    everything = [value for part in parts for value in part]
    found = aggregator.result(whole)
    expected = statistics.variance(everything) if len(everything) > 1 else None
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-6, abs=1e-9))


def test_spread_of_what_is_not_finite_is_not_a_number_as_in_spark() -> None:
    keys = Keys(F.var_pop("real"), F.var_samp("real"))

    keys.take(batch([{"key": "a", "real": math.inf}, {"key": "a", "real": 1.0}]))

    assert keys.output["a"] == {"key": "a", "var_pop(real)": "NaN", "var_samp(real)": "NaN"}


# -- sketches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [1, 37])
def test_sketches_are_near_and_come_to_the_same_bytes_wherever_batches_end(batches: int) -> None:
    chance = random.Random(20)
    drawn = [chance.lognormvariate(0, 2) for _ in range(4_000)]
    shares = [0.0, 0.01, 0.5, 0.9, 0.999, 1.0]
    rows = [{"key": "a", "real": value, "big": at % 1_500} for at, value in enumerate([*drawn, None, math.nan])]
    aggregates = (F.approx_percentile("real", shares).alias("q"), F.approx_count_distinct("big", 0.02).alias("n"))
    cut, whole = Keys(*aggregates), Keys(*aggregates)
    size = -(-len(rows) // batches)

    for begin in range(0, len(rows), size):
        cut.take(batch(rows[begin : begin + size], begin))
    whole.take(batch(rows))

    ordered = sorted(drawn)
    for share, found in zip(shares, cut.output["a"]["q"], strict=True):
        rank = sum(value <= found for value in ordered) / len(ordered)
        assert rank == pytest.approx(share, abs=0.01)
    assert cut.output["a"]["n"] == pytest.approx(1_500, rel=0.06)
    assert cut.state == whole.state


def test_percentile_of_few_values_is_one_of_them_and_of_none_is_null() -> None:
    keys = Keys(F.approx_percentile("big", 0.5).alias("median"), F.approx_percentile("real", [0.5]).alias("none"))

    keys.take(batch([{"key": "a", "big": value} for value in (9, 1, 5)]))

    assert keys.output["a"] == {"key": "a", "median": 5.0, "none": None}


# -- bounds ---------------------------------------------------------------------------------------------------------

BOUNDED: dict[str, tuple[Callable[[int], Aggregate], str]] = {
    "distinct": (lambda limit: F.count_distinct("text", limit=limit), "count_distinct"),
    "list": (lambda limit: F.collect_list("text", limit=limit), "collect_list"),
    "set": (lambda limit: F.collect_set("text", limit=limit), "collect_set"),
}


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("name", BOUNDED)
def test_record_that_has_no_room_is_left_out_whole_wherever_batches_end(name: str, size: int) -> None:
    made, function = BOUNDED[name]
    keys = Keys(made(2).alias("kept"), F.count().alias("n"))
    rows = [{"key": "a", "text": text} for text in ["x", None, "y", "z", "z"]] + [{"key": "b", "text": "z"}]

    failed = []
    for begin in range(0, len(rows), size):
        failed += keys.take(batch(rows[begin : begin + size], begin), tolerant=True)

    assert failed == [3, 4]
    assert {key: row["n"] for key, row in keys.output.items()} == {"a": 3, "b": 1}
    with pytest.raises(FunctionError, match=rf"{function}\(\) has no room for more than 2 values of a key") as caught:
        keys.take(batch(rows[3:5], 40))
    assert (caught.value.offset, caught.value.key) == (40, "a")


def test_greater_limit_goes_on_over_the_same_state() -> None:
    before, now = (Aggregation((F.collect_set("text", limit=n).alias("texts"),)) for n in (1, 2))
    schema = batch([{"key": "a"}]).schema

    assert before.signature("k", pa.string(), schema) == now.signature("k", pa.string(), schema)


# -- conditions -----------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(data=st.data())
def test_rows_for_which_the_condition_is_not_true_do_not_count(data: st.DataObject) -> None:
    rows = data.draw(rows_with("small", "text", "price"))
    functions: list[Callable[..., Aggregate]] = [F.sum, F.min, F.max, F.mean, F.first, F.last, F.count, F.variance]
    functions += [lambda c, **given: F.collect_list(c, limit=99, **given), lambda c, **given: F.last(c, True, **given)]
    made = [(f"{at}", function) for at, function in enumerate(functions)]
    filtered = Keys(F.count(filter="x").alias("n"), *(f("small", filter="x").alias(name) for name, f in made))
    plain = Keys(F.count().alias("n"), *(function("small").alias(name) for name, function in made))
    where = filtered.operation.aggregates[0].where
    assert where is not None
    flags = [data.draw(st.sampled_from([True, True, False, None])) for _ in rows]

    for begin, end in drawn_cuts(data, len(rows)):
        part = batch(rows[begin:end]).append_column(where, pa.array(flags[begin:end], pa.bool_()))
        filtered.take(part)
    left = [row for row, counts in zip(rows, flags, strict=True) if counts]
    if left:
        plain.take(batch(left))

    for key, output in filtered.output.items():
        if key in plain.output:
            assert repr(output) == repr(plain.output[key])
        else:
            assert output["n"] == 0
            assert [value for value in output.values() if value not in (None, 0, [], key)] == []


def test_row_that_does_not_count_does_not_overflow_a_sum() -> None:
    keys = Keys(F.sum("big", filter="x").alias("total"))
    where = keys.operation.aggregates[0].where
    rows = batch([{"key": "a", "big": 2**62} for _ in range(3)])

    assert where is not None
    failed = keys.take(rows.append_column(where, pa.array([True, False, True])), tolerant=True)

    assert failed == [2]
    assert keys.output["a"]["total"] == 2**62


def test_condition_that_is_none_is_named() -> None:
    aggregate = F.count(filter="small").alias("n")
    assert aggregate.where is not None
    rows = batch([{"key": "a"}]).append_column(aggregate.where, pa.array([1], pa.int64()))

    with pytest.raises(ConfigurationError, match=r"'n' cannot be kept: its filter= is of type int64"):
        merged(Aggregation((aggregate,)), rows)


# -- a user's own ---------------------------------------------------------------------------------------------------


class Longest(Aggregator):
    result_type = "ARRAY<STRING>"

    def zero(self) -> Any:
        return []

    def add(self, state: Any, *values: Any) -> Any:
        (text,) = values
        state.append(text)
        if text == "bad":
            raise ValueError("no such text")
        return state

    def merge(self, state: Any, other: Any) -> Any:
        return state + other

    def result(self, state: Any) -> Any:
        if "worse" in state:
            return 7
        return sorted((text for text in state if text is not None), key=lambda text: (-len(text), text))[:2]


class InOrder(Aggregator):
    result_type = "STRING"

    def zero(self) -> Any:
        return ""

    def add(self, state: Any, *values: Any) -> Any:
        return state + "".join(map(str, values))

    def result(self, state: Any) -> Any:
        return state


@pytest.mark.parametrize("size", [1, 2, 9])
def test_own_aggregate_is_kept_and_what_it_raises_is_laid_on_the_record(size: int) -> None:
    keys = Keys(F.udaf(Longest(), "text").alias("longest"), F.count().alias("n"))
    rows = [{"key": "a", "text": text} for text in ["x", "bad", None, "yy", "worse", "zzz", "bad"]]

    failed = []
    for begin in range(0, len(rows), size):
        failed += keys.take(batch(rows[begin : begin + size], begin), tolerant=True)

    assert failed == [1, 4, 6]
    assert keys.output["a"] == {"key": "a", "longest": ["zzz", "yy"], "n": 4}


@pytest.mark.parametrize(("text", "told"), [("worse", True), ("bad", False)])
def test_result_of_another_type_is_told_the_type_that_was_declared(text: str, told: bool) -> None:
    keys = Keys(F.udaf(Longest(), "text").alias("longest"))

    with pytest.raises(FunctionError) as raised:
        keys.take(batch([{"key": "a", "text": text}], 0), tolerant=False)

    assert ("its result_type is ARRAY<STRING>" in str(raised.value)) is told


def test_own_aggregate_without_merge_is_not_combined() -> None:
    aggregate = F.udaf(InOrder(), "text", "small").alias("texts")

    assert not aggregate.mergeable
    with pytest.raises(ConfigurationError, match=r"'texts' cannot be combined"):
        PartialAggregation((aggregate,))


def test_own_aggregate_of_another_version_is_another() -> None:
    class Newer(InOrder):
        version = 2

    Newer.__name__ = InOrder.__name__
    schema = batch([{"key": "a"}]).schema
    before, now = (
        Aggregation((F.udaf(own, "text").alias("texts"),)).signature("k", pa.string(), schema)
        for own in (InOrder(), Newer())
    )

    assert before.changes_to(now) == [
        "the aggregate 'texts': InOrder(text) of type string became InOrder(text, version=2) of type string"
    ]


def test_state_of_another_program_is_not_taken_for_one() -> None:
    operation = Aggregation((F.count_distinct("text").alias("n"),))
    strange = Aggregation((F.udaf(InOrder(), "text").alias("n"),))
    rows = batch([{"key": "a", "text": "x"}])
    kept = dict(merged(strange, rows).state)

    with pytest.raises(ConfigurationError, match="A state is not one of count_distinct"):
        merged(operation, rows, kept)


class Nothing(InOrder):
    result_type = "MAP<STRING, STRING>"


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "unbounded-list": (lambda: F.collect_list("x"), r"F\.collect_list\(\) got no limit: state has to be bounded"),
    "unbounded-set": (lambda: F.collect_set("x"), r"F\.collect_set\(\) got no limit"),
    "limit-of-none": (lambda: F.count_distinct("x", limit=0), r"F\.count_distinct\(\) got limit=0"),
    "top-of-none": (lambda: F.top("x", 0), r"F\.top\(\) got n=0"),
    "top-of-a-column": (lambda: F.top("x", "y"), r"F\.top\(\) got n='y'"),  # type: ignore[arg-type]
    "by-as-ignorenulls": (lambda: F.last("x", "at"), r"a column goes into by="),  # type: ignore[arg-type]
    "by-no-column": (lambda: F.max_by("x", 3), r"F\.max_by\(\) got 3"),  # type: ignore[arg-type]
    "share": (lambda: F.approx_percentile("x", 99), r"F\.approx_percentile\(\) got percentage=99"),
    "no-share": (lambda: F.approx_percentile("x", []), r"got percentage=\[\]"),
    "rsd": (lambda: F.approx_count_distinct("x", 2.0), r"got rsd=2\.0"),
    "no-rsd": (lambda: F.approx_count_distinct("x", None), r"got rsd=None"),  # type: ignore[arg-type]
    "filter-no-text": (lambda: F.sum("x", filter=True), r"F\.sum\(\) got filter=True"),  # type: ignore[arg-type]
    "own-class": (lambda: F.udaf(InOrder, "x"), r"F\.udaf\(\) got .*an object of a subclass"),  # type: ignore[arg-type]
    "own-type": (lambda: F.udaf(Nothing(), "x"), r"whose result_type is 'MAP<STRING, STRING>'"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_wrong_argument_is_refused_in_one_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_what_a_column_cannot_be_is_refused_where_the_class_is_made() -> None:
    with pytest.raises(ConfigurationError, match="no 'integer': of each column say one of 'any', 'ordered', 'number'"):

        class Bits(Aggregator):
            taken = ("integer",)  # type: ignore[assignment]
