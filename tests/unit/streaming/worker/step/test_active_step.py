"""What the active step does with a task's rows before it writes, with a task that only remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from airflow_provider.changelog.commit_record import CommitRecord, SourcePosition
from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import DecodeError, ProcessError, RecordError
from airflow_provider.state.digest import digest_of
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.streaming.json.user_values import encode_state
from airflow_provider.streaming.operations.batch import Changes
from airflow_provider.streaming.operations.limits import Limits, TopicLimit
from airflow_provider.streaming.operations.process import Process, Row, ValueState
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.planner.stage_spec import InputSpec
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.worker.step.active_step import active_step
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.streaming.worker.tasks.task_committer import BatchResult
from airflow_provider.streaming.worker.tasks.task_memory import PartitionCheck
from airflow_provider.testing.in_memory_clients import InMemoryGroup
from tests.builders import commit_of

GROUP = InMemoryGroup()


def last_amount(key: str, rows: list[Row], state: ValueState) -> None:
    if any(row["amount"] == 666 for row in rows):
        raise ValueError("poison")
    state.update(rows[-1]["amount"])


@dataclass
class FakeTask:
    """Number 3 of ``orders``, with a store in memory."""

    source_offset: int | None = None
    partition: int = 3
    stored: dict[bytes, bytes] = field(default_factory=dict)
    written: list[BatchResult] = field(default_factory=list)

    job = SimpleNamespace(
        input=InputSpec(topic="orders", key_name="customer", filters=("no_amount", "test_order")),
        operation=Process(last_amount, ("amount",)),
        error_policy=ErrorPolicy(),
        changelog="app-state-changelog",
        store=SimpleNamespace(name="state"),
        sink_topic=None,
        limits=Limits(TopicLimit("app-state-changelog", 1_048_588), None),
    )
    operation = job.operation
    partition_check: PartitionCheck | None = None
    time = StreamTime()

    @property
    def id(self) -> TaskId:
        return TaskId(0, self.partition)

    @property
    def commit_record(self) -> CommitRecord | None:
        if self.source_offset is None:
            return None
        return commit_of(sources={"orders": SourcePosition(self.source_offset)})

    @property
    def replica(self) -> FakeTask:
        return self

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.stored.get(key) for key in keys]

    def write(self, result: BatchResult, group: ConsumerGroup) -> None:
        assert group is GROUP
        self.written.append(result)
        self.source_offset = result.source_offset


@dataclass(frozen=True)
class Record:
    offset: int
    key: bytes | None = b"k"
    amount: int = 1
    filtered: int | None = None
    corrupt: bool = False
    source_key: bytes | None = b"source key"


def step(task: FakeTask, *records: Record) -> int:
    """Returns how many rows were new."""
    table = pa.table(
        {
            "__offset": pa.array([r.offset for r in records], pa.int64()),
            "__source_key": pa.array([r.source_key for r in records], pa.binary()),
            "__filtered": pa.array([r.filtered for r in records], pa.int32()),
            "__corrupt": pa.array(["not JSON" if r.corrupt else None for r in records], pa.string()),
            "__key": pa.array([r.key for r in records], pa.binary()),
            "amount": pa.array([r.amount for r in records], pa.int64()),
        }
    )
    before = len(task.written)
    result = active_step(cast(Task, task), table)
    if result is not None:
        task.write(result, GROUP)
    return sum(result.records for result in task.written[before:])


def test_first_batch_of_all_is_processed_from_its_beginning() -> None:
    task = FakeTask()

    assert step(task, Record(5, b"a", 1), Record(7, b"b", 2), Record(9, b"a", 3)) == 3

    (written,) = task.written
    assert dict(written.changes.state) == {b"a": encode_state(3), b"b": encode_state(2)}
    assert (written.source_offset, written.records, written.filtered) == (10, 3, {})


def test_digest_changes_as_the_store_does() -> None:
    task = FakeTask(stored={b"a": b"9", b"other": b"0"})

    step(task, Record(5, b"a", 1), Record(7, b"b", 2))

    (written,) = task.written
    after, before = digest_of([b"a", b"b"], [encode_state(1), encode_state(2)]), digest_of([b"a"], [b"9"])
    assert written.digest_change == {0: (after - before) % 2**64}


def test_rows_below_the_recorded_offset_change_nothing() -> None:
    task = FakeTask(source_offset=8)

    assert step(task, Record(5, b"a"), Record(7, b"b"), Record(9, b"c")) == 1

    (written,) = task.written
    assert [key for key, _ in written.changes.state] == [b"c"]
    assert (written.source_offset, written.records) == (10, 1)


def test_batch_that_was_processed_already_writes_nothing() -> None:
    task = FakeTask(source_offset=10)

    assert step(task, Record(7), Record(9)) == 0
    assert step(task) == 0

    assert task.written == []


def test_bad_record_below_the_recorded_offset_is_no_matter_any_more() -> None:
    task = FakeTask(source_offset=8)

    assert step(task, Record(7, corrupt=True), Record(8)) == 1


def test_filtered_rows_are_counted_by_the_filter_that_dropped_them() -> None:
    task = FakeTask()

    assert step(task, Record(1, filtered=0), Record(2, b"kept"), Record(3, filtered=1), Record(4, filtered=0)) == 4

    (written,) = task.written
    assert written.filtered == {"no_amount": 2, "test_order": 1}
    assert [key for key, _ in written.changes.state] == [b"kept"]
    assert (written.source_offset, written.records) == (5, 4)


def test_filters_of_one_name_are_counted_together() -> None:
    task = FakeTask()
    task.job = SimpleNamespace(
        **{**vars(task.job), "input": InputSpec(topic="orders", key_name="customer", filters=("bad", "test", "bad"))}
    )

    step(task, *(Record(at, filtered=number) for at, number in enumerate([0, 0, 1, 2, 0])))

    assert task.written[0].filtered == {"bad": 4, "test": 1}


def test_batch_that_is_all_filtered_moves_the_position_and_the_counts_only() -> None:
    task = FakeTask()

    step(task, Record(1, None, filtered=1), Record(2, None, filtered=1))

    assert task.written == [
        BatchResult(changes=Changes([], []), source_offset=3, records=2, filtered={"test_order": 2})
    ]


@pytest.mark.parametrize(
    ("record", "kind", "key", "reason"),
    [
        pytest.param(Record(12, corrupt=True), DecodeError, "source key", "correct the job", id="undecodable-value"),
        pytest.param(
            Record(12, None, corrupt=True, source_key=None), DecodeError, None, "correct the job", id="without-a-key"
        ),
        pytest.param(Record(12, None), RecordError, None, "the value has no 'customer', or null there", id="null-key"),
        pytest.param(Record(12, RESERVED_PREFIX + b"commit"), RecordError, None, "is reserved for", id="reserved-key"),
        pytest.param(Record(12, b"bad", 666), ProcessError, "bad", "ValueError.*poison", id="function-raises"),
    ],
)
def test_bad_record_is_named_and_nothing_of_its_batch_is_written(
    record: Record, kind: type[RecordError], key: str | None, reason: str
) -> None:
    task = FakeTask(source_offset=10)

    with pytest.raises(kind, match=reason) as caught:
        step(task, Record(9, corrupt=True), Record(11), record, Record(13))

    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 12)
    assert key is None or error.key == key
    assert str(error).startswith("orders[3] at offset 12, key ")
    assert task.written == []


def test_rows_of_one_record_are_one_record() -> None:
    task = FakeTask()

    assert (
        step(task, Record(5, b"a", 1), Record(5, b"b", 2), Record(6, b"a", 3, filtered=1), Record(6, filtered=0)) == 2
    )

    (written,) = task.written
    assert dict(written.changes.state) == {b"a": encode_state(1), b"b": encode_state(2)}
    assert (written.source_offset, written.filtered, written.failed) == (7, {"test_order": 1}, 0)


def test_record_of_which_one_row_cannot_be_processed_is_left_out_whole() -> None:
    task = FakeTask()
    task.job = SimpleNamespace(**{**vars(FakeTask.job), "error_policy": ErrorPolicy(OnError.SKIP)})

    step(task, Record(5, b"a", 1), Record(6, b"a", 2), Record(6, b"b", 666), Record(6, b"b", 666), Record(7, b"b", 3))

    (written,) = task.written
    assert dict(written.changes.state) == {b"a": encode_state(1), b"b": encode_state(3)}
    assert (written.records, written.failed, written.source_offset) == (3, 1, 8)
