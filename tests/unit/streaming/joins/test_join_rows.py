from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.join_operation import JoinSide
from airflow_provider.streaming.joins.join_rows import (
    DELETED,
    FLAGS,
    GONE,
    LEFT,
    RIGHT,
    ROW,
    UNKEYED,
    JoinedColumns,
    JoinRows,
    KeptRow,
    decode_rows,
    encode_rows,
    rows_of_columns,
)
from airflow_provider.streaming.operations.batch import KnownState
from airflow_provider.streaming.operations.operation import Batch
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.terms.event_time import EVENT_MS
from tests.unit.streaming.operations.merging import merged


def values_of(values: list[bytes | None]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.binary())])


def encoded(flags: list[int], times: list[int], rows: pa.Array) -> list[bytes]:
    return JoinRows().encode(np.array(flags, np.uint8), np.array(times), rows)


def side_rows(operation: JoinSide, **columns: pa.Array) -> list[tuple[bytes, bytes | None]]:
    return list(merged(operation, pa.table(columns)).output)


def test_rows_come_back_as_they_were_written() -> None:
    rows = rows_of_columns(("k", pa.array(["a", 'quo"te'])), [("n", pa.array([1, None])), ("x", pa.array([0.5, 2.0]))])
    values = encoded([RIGHT, LEFT], [-5, 2**41], rows)
    decoded = JoinRows().decode(values_of(list(values)))
    assert decoded.bad == {}
    assert decoded.columns[FLAGS].to_pylist() == [RIGHT, LEFT]
    assert decoded.columns[EVENT_MS].to_pylist() == [-5, 2**41]
    assert decoded.columns[ROW].to_pylist() == rows.to_pylist()


def test_deletion_has_no_row() -> None:
    (value,) = encoded([RIGHT | GONE], [1], rows_of_columns(("k", pa.array(["a"])), []))
    assert JoinRows().decode(values_of([value])).columns[ROW].to_pylist() == [bytes(4)]


@pytest.mark.parametrize("value", [None, b"", b"{}", b"\x02" + bytes(20), b"\x01" + bytes(12)])
def test_value_of_another_program_is_bad(value: bytes | None) -> None:
    (good,) = encoded([LEFT], [1], rows_of_columns(("k", pa.array(["a"])), []))
    decoded = JoinRows().decode(values_of([good, value]))
    assert list(decoded.bad) == [1]
    assert decoded.columns[ROW].is_valid().to_pylist() == [True, False]


def test_no_values_give_no_rows() -> None:
    decoded = JoinRows().decode(pa.chunked_array([], pa.binary()))
    assert [len(column) for column in decoded.columns.values()] == [0, 0, 0]


def test_joined_object_has_the_key_once_and_every_type_as_it_was() -> None:
    at = pa.array([datetime(2026, 1, 31, 12, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    (one,) = rows_of_columns(("k", pa.array([7])), [("amount", pa.array([Decimal("1.50")])), ("at", at)]).to_pylist()
    (other,) = rows_of_columns(("k", pa.array([7])), [("r", pa.array(["x"]))]).to_pylist()
    joined = pickle.loads(pickle.dumps(JoinedColumns("k", ("amount", "at"), ("r",))))
    assert joined.both(one, other) == b'{"k":7,"amount":1.50,"at":"2026-01-31T12:00:00.000000Z","r":"x"}'
    assert json.loads(joined.one(LEFT, one)) == {"k": 7, "amount": 1.5, "at": "2026-01-31T12:00:00.000000Z", "r": None}
    assert json.loads(joined.one(RIGHT, other)) == {"k": 7, "amount": None, "at": None, "r": "x"}


def test_side_with_no_column_but_the_key() -> None:
    (one,), (other,) = (rows_of_columns(("k", pa.array(["a"])), []).to_pylist() for _ in range(2))
    joined = JoinedColumns("k", (), ())
    assert (joined.both(one, other), joined.one(LEFT, one), joined.one(RIGHT, other)) == (b'{"k":"a"}',) * 3


def test_side_writes_its_rows_with_their_times() -> None:
    side = JoinSide(side=RIGHT, on="k", others=("n",), table=True)
    output = side_rows(
        side,
        __key=pa.array([b"a", b"b"]),
        __event_ms=pa.array([3, 4]),
        **{DELETED: pa.array([False, True])},
        k=pa.array(["a", None]),
        n=pa.array([1, None]),
    )
    assert [key for key, _ in output] == [b"a", b"b"]
    decoded = JoinRows().decode(values_of([value for _, value in output])).columns
    assert decoded[FLAGS].to_pylist() == [RIGHT, RIGHT | GONE]
    assert decoded[EVENT_MS].to_pylist() == [3, 4]
    assert decoded[ROW][0].as_py()[4:] == b'"k":"a","n":1'


@pytest.mark.parametrize(("time", "times"), [(None, [9, 9, 10]), ("that of the record", [3, 2, 10])], ids=str)
def test_rows_of_a_table_that_the_job_makes_are_never_older_than_those_before_them(
    time: str | None, times: list[int]
) -> None:
    side = JoinSide(side=RIGHT, on="k", others=(), table=True, time=time)
    rows = pa.table(
        {
            "__key": [b"a", b"a", b"b"],
            "__event_ms": [3, 2, 10],  # the second one is of a host whose clock is behind
            DELETED: [False, False, False],
            "k": ["a", "a", "b"],
        }
    )
    before = StreamTime(stream_time_ms=9)
    output = side.merge(Batch(key_name="k", rows=rows, before=before, after=before), KnownState({}), False).output

    decoded = JoinRows().decode(values_of([value for _, value in output])).columns
    assert decoded[EVENT_MS].to_pylist() == times


def test_row_with_a_null_key_is_marked() -> None:
    side = JoinSide(side=LEFT, on="k", others=())
    ((key, value),) = side_rows(
        side, __key=pa.array([None], pa.binary()), __event_ms=pa.array([3]), k=pa.array([None], pa.string())
    )
    assert key == b""
    assert JoinRows().decode(values_of([value])).columns[FLAGS].to_pylist() == [UNKEYED]


def test_column_that_json_does_not_keep_is_refused() -> None:
    schema = pa.schema([("k", pa.string()), ("tags", pa.binary())])
    with pytest.raises(ConfigurationError, match=r"'tags'.*cannot go through a join.*select\(\) before join\(\)"):
        JoinSide(side=LEFT, on="k", others=("tags",)).signature("k", pa.string(), schema)


def test_kept_rows_come_back() -> None:
    rows = [KeptRow(-1, 9, b"one"), KeptRow(2**41, 2, b"")]
    assert decode_rows(encode_rows(rows)) == rows
    assert encode_rows([]) is None
    assert decode_rows(None) == []


@pytest.mark.parametrize("state", [b"x", b"\x01" * 30, (encode_rows([KeptRow(1, 0, b"row")]) or b"")[:-1]])
def test_state_of_another_operation_is_refused(state: bytes) -> None:
    with pytest.raises(ConfigurationError, match="not one of a join"):
        decode_rows(state)
