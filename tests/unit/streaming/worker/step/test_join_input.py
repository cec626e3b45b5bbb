from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider.streaming.joins.join_rows import DELETED, JoinRows
from airflow_provider.streaming.json.json_decoder import JsonDecoder
from airflow_provider.streaming.planner.stage_plan import NullKeys
from airflow_provider.streaming.planner.stage_spec import InputSpec
from airflow_provider.streaming.terms.event_time import EVENT_MS, EventTime
from airflow_provider.streaming.worker.step.arrival import rows_by_partition, with_deletions
from airflow_provider.streaming.worker.step.row_validation import validate_rows
from tests.unit.streaming.worker.step.test_arrival import piece, spec

SIDE = InputSpec(
    topic="in",
    key_name="name",
    decoder=JsonDecoder.of("name STRING, at BIGINT"),
    json=True,
    event_time=EventTime("at", 0),
)


def arrived(given: InputSpec, *values: bytes | None) -> pa.Table:
    batch = piece(*((0, number, value or b"") for number, value in enumerate(values)))
    at = batch.schema.get_field_index("__value")
    batch = batch.set_column(at, "__value", pa.array(values, pa.binary()))
    ((_, rows),) = rows_by_partition(dataclasses.replace(spec(), input=given), [batch])
    return rows


def test_deletion_of_a_table_has_its_records_key_and_time() -> None:
    rows = arrived(dataclasses.replace(SIDE, table=True), b'{"name": "ann", "at": 5}', None)

    assert rows.column("__key").to_pylist() == [b"ann", b"k"]
    assert rows.column(EVENT_MS).to_pylist() == [5, 7]
    assert rows.column(DELETED).to_pylist() == [False, True]
    good, failures = validate_rows("in", 0, "name", rows, table=True)
    assert good.column("__offset").to_pylist() == [1]
    assert "has the key 'k', not that of its row, 'ann'" in str(failures[0].error)


def test_row_of_a_table_without_a_key_is_not_told_to_be_filtered() -> None:
    rows = arrived(dataclasses.replace(SIDE, table=True), b'{"at": 5}')

    _, failures = validate_rows("in", 0, "name", rows, table=True)

    said = str(failures[0].error)
    assert "filter such records" not in said
    assert "a table's filter() does not see it" in said
    assert "let the producer" in said
    assert "on_error('skip') or on_error('dead_letter', ...) leaves such records out" in said


@pytest.mark.parametrize(("null_keys", "filtered"), [("refuse", None), ("drop", 1), ("keep", None)])
def test_row_with_a_null_key_is_dropped_where_it_has_nowhere_to_go(null_keys: NullKeys, filtered: int | None) -> None:
    given = dataclasses.replace(SIDE, filters=("free", "no_name"), null_keys=null_keys)
    rows = arrived(given, b'{"name": "ann", "at": 5}', b'{"at": 5}', b"{")

    assert rows.column("__filtered").to_pylist() == [None, filtered, None]
    good, failures = validate_rows("in", 0, "name", rows.slice(0, 2), null_keys=null_keys == "keep")
    assert good.num_rows == (2 if null_keys == "keep" else 1)
    assert len(failures) == 2 - good.num_rows


def test_row_without_key_and_time_fails_for_its_time() -> None:
    rows = arrived(dataclasses.replace(SIDE, null_keys="keep"), b"{}")

    _, failures = validate_rows("in", 0, "name", rows, null_keys=True)
    assert "the event time is null" in str(failures[0].error)


def test_rows_of_no_join_are_left_as_they_are() -> None:
    rows = arrived(SIDE, b'{"name": "ann", "at": 5}')
    assert with_deletions(SIDE, rows, rows) is rows


def test_rows_in_front_of_a_join_bring_their_times() -> None:
    (value,) = JoinRows().encode(np.zeros(1, np.uint8), np.array([42]), pa.array([bytes(4)]))
    given = InputSpec(topic="in", key_name="name", decoder=JoinRows(), keyed=True, event_time=EventTime(EVENT_MS, 0))
    rows = arrived(given, value)
    assert rows.column(EVENT_MS).to_pylist() == [42]
    assert rows.column("__key").to_pylist() == [b"k"]
