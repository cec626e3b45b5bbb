from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming.aggregate import Aggregation
from airflow_provider.streaming.arrival import ROUND_COLUMN, ahead, rows_by_task
from airflow_provider.streaming.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.functions import count
from airflow_provider.streaming.json_decoder import JsonDecoder
from airflow_provider.streaming.plan import JobSpec


def spec(**changes: Any) -> JobSpec:
    return JobSpec(
        "app", "in", None, "state", "name", Aggregation((count(),)), (), 3, RocksDBOptions(), 86_400_000, 60_000,
        **changes,
    )  # fmt: skip


def piece(*rows: tuple[int, int, bytes]) -> pa.RecordBatch:
    tasks, offsets, values = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "__task": pa.array(tasks, pa.int32()),
            "__offset": pa.array(offsets, pa.int64()),
            "__source_key": pa.array([b"k"] * len(rows), pa.binary()),
            "__value": pa.array(values, pa.binary()),
            "__timestamp_ms": pa.array([7] * len(rows), pa.int64()),
        }
    )


def test_rows_of_a_task_come_together_whatever_the_pieces() -> None:
    pieces = [piece((0, 1, b""), (0, 2, b"")), piece((0, 3, b""), (2, 9, b"")), piece((2, 10, b""))]

    found = [(task, rows.column("__offset").to_pylist()) for task, rows in rows_by_task(spec(), pieces)]

    assert found == [(0, [1, 2, 3]), (2, [9, 10])]


def test_task_is_handed_on_before_the_next_one_s_rows_are_all_there() -> None:
    asked: list[int] = []

    def pieces() -> Iterator[pa.RecordBatch]:
        for number, rows in enumerate([(0, 1, b""), (1, 1, b""), (1, 2, b"")]):
            asked.append(number)
            yield piece(rows)

    task, _ = next(rows_by_task(spec(), pieces()))

    assert (task, asked) == (0, [0, 1])


def test_round_brings_no_rows() -> None:
    assert list(rows_by_task(spec(), [pa.RecordBatch.from_pydict({ROUND_COLUMN: [0]})])) == []
    assert list(rows_by_task(spec(), [])) == []


def test_json_is_decoded_piece_by_piece_and_what_does_not_decode_keeps_its_place() -> None:
    decoder = JsonDecoder.of("name STRING, amount INT")
    pieces = [piece((0, 1, b'{"name": "a", "amount": 1}')), piece((0, 2, b"{"), (0, 3, b'{"name": "b"}'))]

    ((_, rows),) = rows_by_task(spec(decoder=decoder), pieces)

    assert rows.column("__key").to_pylist() == [b"a", None, b"b"]
    assert rows.column("amount").to_pylist() == [1, None, None]
    assert [why is None for why in rows.column("__corrupt").to_pylist()] == [True, False, True]
    assert "__value" not in rows.column_names


def test_record_itself_is_kept_where_it_may_become_a_dead_letter() -> None:
    policy = ErrorPolicy(OnError.DEAD_LETTER, "dead")
    decoder = JsonDecoder.of("name STRING")

    ((_, rows),) = rows_by_task(spec(decoder=decoder, error_policy=policy), [piece((0, 1, b"{"))])

    assert rows.select(["__value", "__timestamp_ms"]).to_pylist() == [{"__value": b"{", "__timestamp_ms": 7}]


def test_items_are_made_while_others_are_used() -> None:
    made = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        yield 2
        made.set()

    taken = ahead(items())

    assert next(taken) == 1
    assert made.wait(10), "the second item waited for the first one's user"
    assert list(taken) == [2]


def test_error_of_who_makes_items_reaches_who_uses_them_after_those_before() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    taken = ahead(items())

    assert next(taken) == 1
    with pytest.raises(OSError, match="gone"):
        next(taken)
