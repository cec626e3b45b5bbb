from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pytest

from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.expressions.spark_types import LeftToSparkError
from airflow_provider.streaming.expressions.worker_steps import RawDecoder, SteppedDecoder
from airflow_provider.streaming.functions import count
from airflow_provider.streaming.json.json_decoder import JsonDecoder, JsonField
from airflow_provider.streaming.json.spark_json import SparkJson
from airflow_provider.streaming.operations.operation import Decoder
from airflow_provider.streaming.planner.stage_spec import InputSpec, StageSpec, StoreSpec
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.terms.steps import CompositeKey, Filter, Select, Selected, Step, WithColumn
from airflow_provider.streaming.worker.step import arrival
from airflow_provider.streaming.worker.step.arrival import ROUND_COLUMN, RowMeter, drained, prefetch, rows_by_partition
from tests.waiting import wait_until


def spec(decoder: Decoder | None = None, **changes: Any) -> StageSpec:
    return StageSpec(
        application_id="app",
        input=InputSpec(topic="in", key_name="name", decoder=decoder),
        operation=Aggregation((count(),)),
        store=StoreSpec(name="state", changelog="app-state-changelog", delete_retention_ms=86_400_000),
        **changes,
    )


def piece(*rows: tuple[int, int, bytes]) -> pa.RecordBatch:
    tasks, offsets, values = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "__partition": pa.array(tasks, pa.int32()),
            "__offset": pa.array(offsets, pa.int64()),
            "__source_key": pa.array([b"k"] * len(rows), pa.binary()),
            "__value": pa.array(values, pa.binary()),
            "__timestamp_ms": pa.array([7] * len(rows), pa.int64()),
        }
    )


def test_rows_of_a_task_come_together_whatever_the_pieces() -> None:
    pieces = [piece((0, 1, b""), (0, 2, b"")), piece((0, 3, b""), (2, 9, b"")), piece((2, 10, b""))]

    found = [(task, rows.column("__offset").to_pylist()) for task, rows in rows_by_partition(spec(), pieces)]

    assert found == [(0, [1, 2, 3]), (2, [9, 10])]


def test_task_is_handed_on_before_the_next_one_s_rows_are_all_there() -> None:
    asked: list[int] = []

    def pieces() -> Iterator[pa.RecordBatch]:
        for number, rows in enumerate([(0, 1, b""), (1, 1, b""), (1, 2, b"")]):
            asked.append(number)
            yield piece(rows)

    task, _ = next(rows_by_partition(spec(), pieces()))

    assert (task, asked) == (0, [0, 1])


def test_round_brings_no_rows() -> None:
    assert list(rows_by_partition(spec(), [pa.RecordBatch.from_pydict({ROUND_COLUMN: [0]})])) == []
    assert list(rows_by_partition(spec(), [])) == []


def test_round_counts_for_no_size_of_rows() -> None:
    round_ = pa.RecordBatch.from_pydict({ROUND_COLUMN: [0]})
    rows = pa.RecordBatch.from_pydict({"__value": [b"x" * 1000] * 3})
    meter = RowMeter([round_, rows])

    assert list(meter) == [round_, rows]

    assert (meter.rows, meter.bytes) == (3, rows.nbytes)


def test_json_is_decoded_piece_by_piece_and_what_does_not_decode_keeps_its_place() -> None:
    decoder = JsonDecoder.of("name STRING, amount INT")
    pieces = [piece((0, 1, b'{"name": "a", "amount": 1}')), piece((0, 2, b"{"), (0, 3, b'{"name": "b"}'))]

    ((_, rows),) = rows_by_partition(spec(decoder=decoder), pieces)

    assert rows.column("__key").to_pylist() == [b"a", None, b"b"]
    assert rows.column("amount").to_pylist() == [1, None, None]
    assert [why is None for why in rows.column("__corrupt").to_pylist()] == [True, False, True]
    assert "__value" not in rows.column_names


def test_what_came_in_one_piece_is_decoded_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what compresses well a fetch brings hundreds of megabytes, and decoded they are several times as much."""
    sizes: list[int] = []

    class Counting(JsonDecoder):
        def decode(self, values: Any) -> Any:
            sizes.append(len(values))
            return super().decode(values)

    monkeypatch.setattr(arrival, "_DECODED_BYTES", 200)
    decoder = Counting.of("name STRING")
    rows = piece(*((0, offset, b'{"name": "%d"}' % offset) for offset in range(100)))

    parts = [part.column("name").to_pylist() for _, part in rows_by_partition(spec(decoder=decoder), [rows])]

    assert [name for part in parts for name in part] == [str(offset) for offset in range(100)]
    assert max(sizes) < 10
    assert sum(sizes) == 100


def test_record_itself_is_kept_where_it_may_become_a_dead_letter() -> None:
    policy = ErrorPolicy(OnError.DEAD_LETTER, "dead")
    decoder = JsonDecoder.of("name STRING")

    ((_, rows),) = rows_by_partition(spec(decoder=decoder, error_policy=policy), [piece((0, 1, b"{"))])

    assert rows.select(["__value", "__timestamp_ms"]).to_pylist() == [{"__value": b"{", "__timestamp_ms": 7}]


def test_record_that_spark_refused_names_the_column_that_it_does_not_fit() -> None:
    given = spec()
    given = dataclasses.replace(
        given, input=dataclasses.replace(given.input, json=True, by_spark=SparkJson("name STRING, amount INT"))
    )
    values = [b'{"name": "a", "amount": 1}', b'{"name": "a", "amount": "much"}', b"{"]
    decoded_by_spark = pa.RecordBatch.from_pydict(
        {
            "__partition": pa.array([0, 0, 0], pa.int32()),
            "__offset": pa.array([1, 2, 3], pa.int64()),
            "__source_key": pa.array([b"k"] * 3, pa.binary()),
            "__key": pa.array([b"a", None, None], pa.binary()),
            "__filtered": pa.array([None] * 3, pa.int32()),
            "__corrupt": pa.array([None, "no row of it", "no row of it"]),
            "__value": pa.array(values, pa.binary()),
        }
    )

    ((_, rows),) = rows_by_partition(given, [decoded_by_spark])

    fits, refused, broken = rows.column("__corrupt").to_pylist()
    assert fits is None
    assert "'amount'" in refused
    assert "amount" not in broken, "it is no JSON, whatever Spark says of it"


@pytest.mark.parametrize("kept", [False, True], ids=["", "for-dead-letters"])
def test_text_that_is_taken_apart_makes_several_rows_of_a_record(kept: bool) -> None:
    words = Selected("split(lower(CAST(value AS STRING)), ' ')", ("key",), "explode")
    decoder = SteppedDecoder.of(RawDecoder(), (Filter("value IS NOT NULL", "empty"), Select((words,), "none")))
    given = dataclasses.replace(spec(decoder).input, key_name="key", json=False)
    policy = ErrorPolicy(OnError.DEAD_LETTER, topic="letters") if kept else ErrorPolicy()

    ((_, rows),) = rows_by_partition(
        dataclasses.replace(spec(), input=given, error_policy=policy),
        [piece((0, 3, b"B a"), (0, 4, cast(bytes, None)), (0, 5, b"c"))],
    )

    assert rows.column("__offset").to_pylist() == [3, 3, 4, 5]
    assert rows.column("__key").to_pylist() == [b"b", b"a", None, b"c"]
    assert rows.column("__filtered").to_pylist() == [None, None, 0, None]
    if kept:
        assert rows.column("__value").to_pylist() == [b"B a", b"B a", None, b"c"]


@pytest.mark.parametrize(
    "step",
    [
        CompositeKey("value,value", ("value", "value")),
        Select((Selected("CAST(value AS STRING)", ("line",)),)),
        Select((Selected("split(trim(CAST(value AS STRING)), ' ')", ("word",), "explode"),), "none"),
        Select((Selected("split(lower(CAST(value AS STRING)), '[z-a]')", ("word",), "explode"),), "none"),
        Select((Selected("split(lower(CAST(value AS STRING)), 'a*')", ("word",), "explode"),), "none"),
        Select((Selected("split(lower(CAST(value AS STRING)), ' ', 2)", ("word",), "explode"),), "none"),
    ],
    ids=["key", "bare", "trimmed", "range", "empty", "limit"],
)
def test_what_bytes_or_a_pattern_come_to_for_spark_alone_is_left_to_it(step: Step) -> None:
    with pytest.raises(LeftToSparkError):
        SteppedDecoder.of(RawDecoder(), (step,))


def test_items_are_made_while_others_are_used() -> None:
    made = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        yield 2
        made.set()

    taken = prefetch(items())

    assert next(taken) == 1
    assert made.wait(10), "the second item waited for the first one's user"
    assert list(taken) == [2]


def test_error_of_who_makes_items_reaches_who_uses_them_after_those_before() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    taken = prefetch(items())

    assert next(taken) == 1
    with pytest.raises(OSError, match="gone"):
        next(taken)


def decoded_by_spark(*values: bytes, **columns: Any) -> pa.RecordBatch:
    size = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "__partition": pa.array([0] * size, pa.int32()),
            "__offset": pa.array(range(size), pa.int64()),
            "__source_key": pa.array([b"k"] * size, pa.binary()),
            "__filtered": pa.array(columns.pop("filtered", [None] * size), pa.int32()),
            "__corrupt": pa.array(columns.pop("corrupt", [None] * size), pa.string()),
            "__key": pa.array([b"k"] * size, pa.binary()),
            "__value": pa.array(values, pa.binary()),
            **columns,
        }
    )


def test_value_that_spark_took_and_that_is_no_json_is_corrupt_and_not_filtered() -> None:
    values = (b'{"a":1}', b'{"a":NaN}', b"{'a':1}", b'{"a":2}', b'{"a":"x"}')
    json_spec = dataclasses.replace(spec(), input=InputSpec(topic="in", key_name="k", json=True))
    came = decoded_by_spark(
        *values, filtered=[None, 0, None, 0, None], corrupt=[None, None, None, None, "of no schema"]
    )

    ((_, rows),) = rows_by_partition(json_spec, [came])

    assert rows.column("__filtered").to_pylist() == [None, None, None, 0, None]
    assert [why is None for why in rows.column("__corrupt").to_pylist()] == [True, False, False, True, False]
    assert rows.column("__corrupt")[4].as_py() == "of no schema"
    assert "__value" not in rows.column_names


def test_value_that_spark_misread_is_corrupt_and_not_filtered() -> None:
    misread = InputSpec(topic="in", key_name="k", json=True, by_spark=SparkJson("a DECIMAL"))
    came = decoded_by_spark(b'{"a":"1.5"}', b'{"a":"1,5"}', filtered=[0, 0])

    ((_, rows),) = rows_by_partition(dataclasses.replace(spec(), input=misread), [came])

    assert rows.column("__filtered").to_pylist() == [0, None]
    assert [why is None for why in rows.column("__corrupt").to_pylist()] == [True, False]


def test_text_that_is_no_utf_8_is_corrupt_unless_a_filter_dropped_it() -> None:
    texts = pa.array([b"a", b"\xff", b"\xfe"], pa.binary())
    host = pa.StringArray.from_buffers(3, texts.buffers()[1], texts.buffers()[2])
    came = decoded_by_spark(b"x", b"y", b"z", filtered=[None, None, 0], host=host)

    ((_, rows),) = rows_by_partition(spec(), [came])

    assert [why is None for why in rows.column("__corrupt").to_pylist()] == [True, False, True]
    assert rows.column("__filtered").to_pylist() == [None, None, 0]


def test_many_large_rows_of_a_task_come_in_parts_and_in_order() -> None:
    large = b"v" * 900_000
    pieces = [piece(*((0, offset, large) for offset in range(at, at + 20))) for at in range(0, 200, 20)]

    found = [
        (task, rows.column("__offset").to_pylist(), rows.nbytes) for task, rows in rows_by_partition(spec(), pieces)
    ]

    assert {task for task, _, _ in found} == {0}
    assert [offset for _, offsets, _ in found for offset in offsets] == list(range(200))
    assert len(found) > 2
    assert max(size for _, _, size in found) <= 64 << 20


def test_large_records_of_which_no_column_takes_much_come_in_parts_too() -> None:
    large = b'{"name": "a", "note": "%s"}' % (b"v" * 900_000)
    pieces = (piece(*((0, offset, large) for offset in range(at, at + 20))) for at in range(0, 200, 20))

    found = [rows.num_rows for _, rows in rows_by_partition(spec(decoder=JsonDecoder.of("name STRING")), pieces)]

    assert (sum(found), len(found) > 2) == (200, True)


def test_only_a_few_items_are_taken_ahead() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    ahead = prefetch(items())
    assert next(ahead) == 0
    wait_until(lambda: len(taken) > 4, 10, "some to be taken ahead")

    assert len(taken) < 10
    assert [0, *ahead] == list(range(100))


def test_thread_ends_soon_after_the_last_item_is_asked_for() -> None:
    ahead = prefetch(iter(range(100)))
    next(ahead)

    ahead.close()  # type: ignore[attr-defined]

    wait_until(lambda: all(t.name != "arrival" for t in threading.enumerate()), 10, "the thread to end")


def test_rows_of_one_record_are_never_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PART_BYTES", "_DECODED_BYTES"):
        monkeypatch.setattr(arrival, name, 1)
    pieces = [
        piece((0, 1, b"a"), (0, 2, b"b")),
        piece((0, 2, b"c")),
        piece((0, 2, b"d"), (0, 3, b"e")),
        piece((1, 3, b"f")),
    ]

    found = [(task, rows.column("__offset").to_pylist()) for task, rows in rows_by_partition(spec(), pieces)]

    assert found == [(0, [1]), (0, [2, 2, 2]), (0, [3]), (1, [3])]


def test_parts_end_where_a_record_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "_PART_BYTES", 1)

    found = [
        rows.column("__offset").to_pylist()
        for _, rows in rows_by_partition(spec(), [piece((0, n, b"")) for n in (1, 2, 4)])
    ]

    assert found == [[1], [2], [4]]


def test_rows_that_nobody_may_process_are_taken_all_the_same() -> None:
    left = iter([piece((0, 1, b"")), piece((0, 2, b""))])

    assert list(drained(left)) == []
    assert list(left) == []


STEPPED = SteppedDecoder.of(
    JsonDecoder((JsonField("name", "STRING"), JsonField("cents", "BIGINT"))),
    [Filter("cents > 0", "no_money"), WithColumn("more", "concat(name, name)")],
)


def test_steps_are_taken_with_what_was_decoded() -> None:
    values = [b'{"name":"a","cents":5}', b'{"name":"b","cents":0}', b"{", b'{"name":"c"}']

    ((_, rows),) = rows_by_partition(
        spec(decoder=STEPPED), [piece(*((0, at, value) for at, value in enumerate(values)))]
    )

    assert rows.column("__filtered").to_pylist() == [None, 0, None, 0]
    assert rows.column("more").to_pylist() == ["aa", "bb", None, "cc"]
    assert rows.column("__corrupt").is_valid().to_pylist() == [False, False, True, False]
