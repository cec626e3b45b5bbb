"""Records that cannot be processed, left out: counted exactly, and kept in a dead-letter topic, exactly once."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.streaming.operations.process import Process, ValueState
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, WorkerDiedError, WorkerProcess, active
from tests.integration.streaming.committed import commits, records_of, wait_for_markers
from tests.waiting import wait_until


def refuse_odd(key: str, rows: list[dict[str, Any]], state: ValueState) -> list[dict[str, Any]]:
    if any(row["amount"] % 2 for row in rows):
        raise ValueError("odd")
    state.update((state.get() or 0) + sum(row["amount"] for row in rows))
    return [{"total": state.get()}]


def micro_batch(first_offset: int, amounts: list[int | None], first_ms: int = 1000) -> list[pa.RecordBatch]:
    """Rows of one key; None is a value that does not decode."""
    size = len(amounts)
    keys = pa.array([b"k"] * size, pa.binary())
    rows = pa.table(
        {
            "__partition": pa.array([0] * size, pa.int32()),
            "__offset": pa.array(range(first_offset, first_offset + size), pa.int64()),
            "__source_key": keys,
            "__filtered": pa.nulls(size, pa.int32()),
            "__corrupt": pa.array(["not JSON" if a is None else None for a in amounts], pa.string()),
            "__key": keys,
            "__value": pa.array([f"value of {a}".encode() for a in amounts], pa.binary()),
            "__timestamp_ms": pa.array([first_ms + first_offset + i for i in range(size)], pa.int64()),
            "amount": pa.array([a or 0 for a in amounts], pa.int64()),
        }
    )
    batches: list[pa.RecordBatch] = rows.to_batches()
    return batches


@pytest.fixture
def tolerant(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Application:
    application = Application.create(bootstrap_servers, application_id, tmp_path, Process(refuse_odd, ("amount",)))
    letters = f"{application_id}-letters"
    TopicAdmin(application.connection).ensure([TopicSpec(name=letters, partitions=1)])
    spec = dataclasses.replace(application.spec, error_policy=ErrorPolicy(OnError.DEAD_LETTER, letters))
    return dataclasses.replace(application, spec=spec)


def dead_letters(application: Application) -> list[Message]:
    topic = str(application.spec.error_policy.topic)
    wait_for_markers(application.connection.bootstrap_servers, topic)
    consumer = Consumer(
        application.connection.to_client_config()
        | {"group.id": "letters", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []

    def at_end() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message)
        error = None if message is None else message.error()
        return error is not None and error.code() == KafkaError._PARTITION_EOF

    wait_until(at_end, 30, "the end of the dead letters")
    consumer.close()
    return found


def test_dead_letters_hold_the_record_and_say_why(tolerant: Application) -> None:
    plan = tolerant.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        (status,) = slot.call(plan, micro_batch(0, [2, 3, None, 4]), False)
    assert status.state is TaskState.RUNNING
    assert (status.failed_records, status.source_offset) == (2, 4)

    odd, undecodable = dead_letters(tolerant)
    assert (odd.key(), odd.value(), odd.timestamp()[1]) == (b"k", b"value of 3", 1001)
    headers = dict(odd.headers() or [])
    assert headers["__streams.errors.topic"] == tolerant.spec.input.topic.encode()
    assert headers["__streams.errors.partition"] == b"0"
    assert headers["__streams.errors.offset"] == b"1"
    assert headers["__streams.errors.timestamp"] == b"1001"
    assert headers["__streams.errors.task"] == b"0_0"
    assert headers["__streams.errors.exception"] == b"ProcessError"
    assert b"odd" in (headers["__streams.errors.message"] or b"")
    assert b"refuse_odd" in (headers["__streams.errors.stacktrace"] or b"")
    assert dict(undecodable.headers() or [])["__streams.errors.exception"] == b"DecodeError"

    servers = tolerant.connection.bootstrap_servers
    assert [r.value for r in records_of(servers, str(tolerant.spec.sink_topic))][-1] == b'{"customer":"k","total":6}'


def test_record_of_the_future_goes_into_a_topic_that_takes_none(tolerant: Application) -> None:
    topic, hour_ms = f"{tolerant.spec.application_id}-strict-letters", 3_600_000
    strict = TopicSpec(name=topic, partitions=1, config={"message.timestamp.after.max.ms": str(hour_ms)})
    TopicAdmin(tolerant.connection).ensure([strict])
    policy = ErrorPolicy(OnError.DEAD_LETTER, topic)
    tolerant = dataclasses.replace(tolerant, spec=dataclasses.replace(tolerant.spec, error_policy=policy))
    plan, ahead_ms = tolerant.instance("i1").plan(active(0)), now_ms() + 2 * hour_ms
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        (status,) = slot.call(plan, micro_batch(0, [3], ahead_ms), False)
    assert (status.state, status.error, status.failed_records) == (TaskState.RUNNING, None, 1)

    (letter,) = dead_letters(tolerant)
    assert letter.timestamp()[1] < ahead_ms - hour_ms
    assert dict(letter.headers() or [])["__streams.errors.timestamp"] == str(ahead_ms).encode()


def test_skipped_records_are_counted_and_written_nowhere(tolerant: Application) -> None:
    skipping = dataclasses.replace(
        tolerant, spec=dataclasses.replace(tolerant.spec, error_policy=ErrorPolicy(OnError.SKIP))
    )
    plan = skipping.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        (status,) = slot.call(plan, micro_batch(0, [1, 1, 2]), False)
    assert (status.failed_records, status.state) == (2, TaskState.RUNNING)
    assert dead_letters(tolerant) == []


@pytest.mark.parametrize("fail_point", ["commit.outputs", "commit.offsets", "commit.done", "store.before"])
def test_dead_letters_are_written_once_through_a_crash(tolerant: Application, fail_point: str) -> None:
    plan = tolerant.instance("i1", fail_points=(f"{fail_point}@2",)).plan(active(0))
    first, second = micro_batch(0, [1, 2]), micro_batch(2, [3, 4])
    worker = WorkerProcess(plan)
    worker.call(plan, (), False)
    worker.call(plan, first, False)
    with pytest.raises(WorkerDiedError):
        worker.call(plan, second, False)
    after = WorkerProcess(plan)
    after.call(plan, (), False)
    # Spark gives the micro-batch again, and the one before it too: nothing of it is new.
    after.call(plan, first, False)
    (status,) = after.call(plan, second, False)
    after.close()
    assert status.failed_records == 2
    assert [letter.value() for letter in dead_letters(tolerant)] == [b"value of 1", b"value of 3"]
    servers = tolerant.connection.bootstrap_servers
    newest = commits(records_of(servers, tolerant.changelog), 0)[-1]
    assert newest["failed"] == 2
