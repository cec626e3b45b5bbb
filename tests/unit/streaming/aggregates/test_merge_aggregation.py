"""Aggregates that are put together from parts, compared with those of all rows at once."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation
from airflow_provider.streaming.aggregates.merge_aggregation import MergeAggregation, PartialAggregation
from airflow_provider.streaming.operations.batch import FunctionError
from tests.unit.streaming.aggregates.test_aggregate import TYPES, VALUES
from tests.unit.streaming.operations.merging import merged as merged_by

NUMBERS = ("big", "small", "real", "single", "price", "wide")
EVERY = (
    F.count().alias("rows"),
    *(F.count(name).alias(f"count {name}") for name in TYPES),
    *(F.min(name).alias(f"min {name}") for name in TYPES),
    *(F.max(name).alias(f"max {name}") for name in TYPES),
    *(F.sum(name).alias(f"sum {name}") for name in NUMBERS),
    *(F.mean(name).alias(f"mean {name}") for name in NUMBERS),
)
SCHEMA = pa.schema([("__key", pa.binary()), ("__offset", pa.int64()), *TYPES.items()])
rows_of_a_job = st.lists(
    st.fixed_dictionaries(
        {"__key": st.sampled_from([b"a", b"b"]), **{name: st.none() | VALUES[name] for name in TYPES}}
    ),
    min_size=1,
    max_size=12,
)


def table(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist([{**row, "__offset": offset} for offset, row in enumerate(rows)], schema)


def parts_of(aggregates: tuple[Aggregate, ...], rows: pa.Table) -> list[tuple[bytes, bytes]]:
    changes = merged_by(PartialAggregation(aggregates), rows)
    assert not changes.state
    return [(key, value) for key, value in changes.output if value is not None]


def merged(operation: MergeAggregation, parts: list[tuple[bytes, bytes]], old: dict[bytes, bytes]) -> dict[bytes, Any]:
    """The output of one micro-batch of the later stage; `old` becomes its state."""
    decoded = operation.decoder.decode(pa.chunked_array([[value for _, value in parts]], pa.binary()))
    assert not decoded.bad
    keys = pa.array([key for key, _ in parts], pa.binary())
    arrived = pa.table({"__key": keys, "__offset": pa.array(range(len(parts)), pa.int64()), **decoded.columns})
    changes = merged_by(operation, arrived, old)
    old |= {key: value for key, value in changes.state if value is not None}
    return {key: value and json.loads(value) for key, value in changes.output}


@settings(max_examples=60)
@given(rows=rows_of_a_job, data=st.data())
def test_parts_come_to_the_same_wherever_micro_batches_end(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    expected = merged_by(Aggregation(EVERY), table(rows))
    cuts = sorted({0, len(rows), *data.draw(st.sets(st.integers(0, len(rows))))})

    parts = [part for begin, end in itertools.pairwise(cuts) for part in parts_of(EVERY, table(rows[begin:end]))]
    merge, state, output = MergeAggregation(EVERY).of_rows(SCHEMA), dict[bytes, bytes](), dict[bytes, Any]()
    again = sorted({0, len(parts), *data.draw(st.sets(st.integers(0, len(parts))))})
    for begin, end in itertools.pairwise(again):
        output |= merged(merge, parts[begin:end], state)

    assert {k: _rounded(v) for k, v in output.items()} == {
        key: _rounded(json.loads(value or b"")) for key, value in expected.output
    }
    states, kept = [state[key] for key in sorted(state)], dict(expected.state)
    assert [_rounded(row) for row in merge.decode_states(states, SCHEMA)] == [
        _rounded(row) for row in Aggregation(EVERY).decode_states([kept[key] or b"" for key in sorted(kept)], SCHEMA)
    ]


def test_state_means_the_same_with_and_without_combining() -> None:
    plain = Aggregation(EVERY).signature("k", pa.string(), SCHEMA)

    assert MergeAggregation(EVERY).of_rows(SCHEMA).signature("k", pa.string(), SCHEMA) == plain


def test_parts_on_the_way_are_read_by_a_job_that_got_another_aggregate() -> None:
    before = (F.count().alias("n"), F.mean("price").alias("gone"), F.max("text").alias("last"))
    now = (F.max("text").alias("last"), F.sum("big").alias("new"), F.count().alias("n"), F.count("big").alias("bigs"))
    parts = parts_of(before, table([{"__key": b"a", "text": "x", "big": 1}, {"__key": b"a", "text": "y", "big": 2}]))

    output = merged(MergeAggregation(now).of_rows(SCHEMA), parts, {})

    assert output == {b"a": {"k": "a", "last": "y", "new": None, "n": 2, "bigs": 0}}


@pytest.mark.parametrize(
    "was",
    [
        pytest.param(F.sum("real").alias("total"), id="column"),
        pytest.param(F.max("big").alias("total"), id="function"),
        pytest.param(F.mean("big").alias("total"), id="more-accumulators"),
    ],
)
def test_parts_that_mean_something_else_by_a_name_are_not_taken_as_of_no_rows(was: Aggregate) -> None:
    rows = table([{"__key": b"a", "big": 1, "real": 2.0}])
    count, total = F.count().alias("n"), F.sum("big").alias("total")
    (good,), (other,) = parts_of((count, total), rows), parts_of((was, count), rows)

    operation = MergeAggregation((count, total)).of_rows(SCHEMA)
    decoded = operation.decoder.decode(pa.chunked_array([[good[1], other[1]]], pa.binary()))

    assert list(decoded.bad) == [1]
    assert "it holds the aggregate 'total' as another version of the job computed it" in decoded.bad[1]


@pytest.mark.parametrize("value", [b"", b"\x02", b"{}", b"\x02\x01short", b"\x01" + bytes(40)], ids=repr)
def test_record_of_another_program_is_named(value: bytes) -> None:
    operation = MergeAggregation((F.count().alias("n"),)).of_rows(SCHEMA)
    good = parts_of(operation.aggregates, table([{"__key": b"a"}]))[0][1]

    decoded = operation.decoder.decode(pa.chunked_array([[good, value]], pa.binary()))

    assert list(decoded.bad) == [1]
    assert "no record of an earlier stage" in decoded.bad[1]


def test_row_without_room_in_a_sum_is_left_out_before_the_repartition() -> None:
    aggregates = (F.sum("big").alias("total"),)
    rows = table([{"__key": b"a", "big": 2**62}, {"__key": b"a", "big": 2**62}, {"__key": b"b", "big": 1}])

    with pytest.raises(FunctionError, match="no room"):
        merged_by(PartialAggregation(aggregates), rows)
    changes = merged_by(PartialAggregation(aggregates), rows, tolerant=True)

    assert [failure.offset for failure in changes.failed] == [1]
    parts = [(key, value) for key, value in changes.output if value is not None]
    assert merged(MergeAggregation(aggregates).of_rows(SCHEMA), parts, {}) == {
        b"a": {"k": "a", "total": 2**62},
        b"b": {"k": "b", "total": 1},
    }


def test_what_depends_on_the_order_of_rows_is_not_combined() -> None:
    assert PartialAggregation(EVERY).aggregates == EVERY
    with pytest.raises(ConfigurationError, match=r"'newest' cannot be combined"):
        PartialAggregation((F.count(), F.last("text").alias("newest")))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return f"{value:.12g}" if isinstance(value, float) else value
