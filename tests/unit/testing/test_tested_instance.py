from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import Role, TaskState
from airflow_provider.streaming.planner.compile import compile_job
from airflow_provider.streaming.planner.compiled_job import CompiledJob
from airflow_provider.testing.in_memory_clients import InMemoryLog, Record
from airflow_provider.testing.source_rows import SourceRecord, SourceRows
from airflow_provider.testing.tested_instance import TestedInstance
from tests.builders import spark_types, topic_facts
from tests.unit.testing.jobs import TOTALS, order

CHANGELOG = "orders-state-changelog"


@pytest.fixture
def job() -> CompiledJob:
    return compile_job(TOTALS.certify(None), topic_facts(TOTALS), spark_types())


@pytest.fixture
def log() -> InMemoryLog:
    return InMemoryLog()


@pytest.fixture
def instances(job: CompiledJob, log: InMemoryLog, tmp_path: Path) -> Iterator[tuple[TestedInstance, TestedInstance]]:
    first, second = (TestedInstance(name, job, tmp_path, log) for name in ("i1", "i2"))
    yield first, second
    first.close()
    second.close()


def process(instance: TestedInstance, job: CompiledJob, offset: int) -> TaskState:
    record = Record(key=b"ann", value=msgspec.json.encode(order("ann", 1.0)), timestamp_ms=1)
    rows = SourceRows(job.stages[0].source).of([SourceRecord(partition=0, offset=offset, record=record)])
    (status,) = instance.process(rows, 0)
    return status.state


def test_active_that_was_not_demoted_yet_is_fenced_and_writes_nothing(
    instances: tuple[TestedInstance, TestedInstance], job: CompiledJob, log: InMemoryLog
) -> None:
    first, second = instances
    first.become(Role.ACTIVE, 1)
    assert process(first, job, 0) is TaskState.RUNNING

    second.become(Role.STANDBY, 1)
    second.become(Role.ACTIVE, 2)
    end = log.end(CHANGELOG, 0)

    assert process(first, job, 1) is TaskState.CLOSED
    assert log.end(CHANGELOG, 0) == end
    assert process(second, job, 1) is TaskState.RUNNING
    assert log.end(CHANGELOG, 0) == end + 3, "a change, its commit record and the marker"


def test_standby_holds_what_the_active_wrote_in_stores_of_its_own(
    instances: tuple[TestedInstance, TestedInstance], job: CompiledJob, tmp_path: Path
) -> None:
    first, second = instances
    first.become(Role.ACTIVE, 1)
    process(first, job, 0)

    second.become(Role.STANDBY, 1)

    assert list(second.tasks[TaskId(0, 0)].replica.items()) == list(first.tasks[TaskId(0, 0)].replica.items())
    assert second.tasks[TaskId(0, 0)].replica.store.path != first.tasks[TaskId(0, 0)].replica.store.path


def test_store_that_was_lost_is_replayed_from_its_changelog(
    instances: tuple[TestedInstance, TestedInstance], job: CompiledJob
) -> None:
    first, _ = instances
    first.become(Role.ACTIVE, 1)
    process(first, job, 0)
    before = list(first.tasks[TaskId(0, 0)].replica.items())

    first.close()
    first.remove_stores()
    assert not first.tasks
    first.become(Role.ACTIVE, 2)

    assert list(first.tasks[TaskId(0, 0)].replica.items()) == before
    assert first.tasks[TaskId(0, 0)].status().restore.records == 2
