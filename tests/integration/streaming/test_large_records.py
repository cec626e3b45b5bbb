"""Values as large as the topics take, and what does not fit: one record's error, never a stream that stands still."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.streaming.json.user_values import decode_state
from airflow_provider.streaming.operations.process import Process, ValueState
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, active
from tests.integration.streaming.committed import newest_by_key, records_of


def keep_text(key: str, rows: list[dict[str, Any]], state: ValueState) -> list[dict[str, Any]]:
    size = sum(row["amount"] for row in rows)
    state.update("x" * size)
    return [{"size": size}]


def rows(first_offset: int, *sizes: int | bytes) -> list[pa.RecordBatch]:
    """Each of a key of its own: a number is the size of its state; bytes are a value that does not decode."""
    count = len(sizes)
    keys = pa.array([f"k{first_offset + at}".encode() for at in range(count)], pa.binary())
    bad = [isinstance(size, bytes) for size in sizes]
    table = pa.table(
        {
            "__partition": pa.array([0] * count, pa.int32()),
            "__offset": pa.array(range(first_offset, first_offset + count), pa.int64()),
            "__source_key": keys,
            "__filtered": pa.nulls(count, pa.int32()),
            "__corrupt": pa.array(["not JSON" if wrong else None for wrong in bad], pa.string()),
            "__key": keys,
            "__value": pa.array([size if isinstance(size, bytes) else b"good" for size in sizes], pa.binary()),
            "__timestamp_ms": pa.array([1_000] * count, pa.int64()),
            "amount": pa.array([0 if isinstance(size, bytes) else size for size in sizes], pa.int64()),
        }
    )
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches


@pytest.fixture
def application(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Application:
    made = Application.create(bootstrap_servers, application_id, tmp_path, Process(keep_text, ("amount",)))
    letters = f"{application_id}-letters"
    TopicAdmin(made.connection).ensure([TopicSpec(name=letters, partitions=1)])
    policy = ErrorPolicy(OnError.DEAD_LETTER, letters)
    return dataclasses.replace(made, spec=dataclasses.replace(made.spec, error_policy=policy))


def test_all_that_the_topics_take_is_written_and_the_rest_is_a_dead_letter(application: Application) -> None:
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        (status,) = slot.call(plan, rows(0, 10, 1_040_000, b"m" * 999_900, 1_048_600, 20), False)
        (after,) = slot.call(plan, rows(5, 30), False)

    assert (status.state, status.error, status.source_offset, status.failed_records) == (TaskState.RUNNING, None, 5, 2)
    assert (after.state, after.source_offset) == (TaskState.RUNNING, 6)
    servers = application.connection.bootstrap_servers
    stored = newest_by_key(records_of(servers, application.changelog), 0)
    assert {key: len(decode_state(value)) for key, value in stored.items()} == {
        b"k0": 10,
        b"k1": 1_040_000,
        b"k4": 20,
        b"k5": 30,
    }
    letters = records_of(servers, str(application.spec.error_policy.topic))
    assert [(letter.key, len(letter.value or b"")) for letter in letters] == [(b"k2", 999_900), (b"k3", 4)]


def test_state_too_large_fails_its_task_and_names_the_record_under_the_policy_to_fail(
    application: Application,
) -> None:
    strict = dataclasses.replace(application, spec=dataclasses.replace(application.spec, error_policy=ErrorPolicy()))
    plan = strict.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, rows(0, 10), False)
        (status,) = slot.call(plan, rows(1, 20, 1_048_600), False)

    assert (status.state, status.error_kind, status.source_offset) == (TaskState.FAILED, "RecordTooLargeError", 1)
    assert f"{strict.spec.input.topic}[0] at offset 2, key 'k2'" in str(status.error)
    assert "max.message.bytes" in str(status.error)


def test_letter_that_its_topic_does_not_take_fails_the_task_so_that_nothing_is_lost(application: Application) -> None:
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        (status,) = slot.call(plan, rows(0, 10, b"m" * 1_048_500), False)

    assert (status.state, status.error_kind, status.source_offset) == (TaskState.FAILED, "RecordTooLargeError", None)
    assert "dead-letter topic" in str(status.error)


@pytest.fixture
def small_batches(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Application:
    """Its changelog takes small batches alone, which its spec does not say."""
    return Application.create(
        bootstrap_servers,
        application_id,
        tmp_path,
        Process(keep_text, ("amount",)),
        changelog_config={"max.message.bytes": "50000"},
    )


def test_limit_that_was_lowered_under_a_running_job_fails_its_task_with_what_to_do(small_batches: Application) -> None:
    # As if the changelog's limit had been Kafka's default when the instance read it.
    plan = small_batches.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        (status,) = slot.call(plan, rows(0, 60_000), False)

    assert (status.state, status.error_kind) == (TaskState.FAILED, "ConfigurationError")
    assert "max.message.bytes" in str(status.error)


def test_many_small_records_go_into_a_topic_of_small_batches(small_batches: Application) -> None:
    limits = {small_batches.changelog: 50_000}
    spec = dataclasses.replace(small_batches.spec, max_message_bytes=limits)
    made = dataclasses.replace(small_batches, spec=spec)
    plan = made.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        (status,) = slot.call(plan, rows(0, *([20_000] * 30)), False)

    assert (status.state, status.error, status.source_offset) == (TaskState.RUNNING, None, 30)
