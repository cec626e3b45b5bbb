"""A worker of a job that would misread what lies in its store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

import pytest

from airflow_provider.changelog.commit_record import SourcePosition
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.errors import ConfigurationError, TopicMismatchError
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.planner.compile import compile_job
from airflow_provider.streaming.planner.compiled_job import CompiledJob
from airflow_provider.streaming.worker.tasks.replica_opening import continued_signature, refuse_state_of
from airflow_provider.testing.in_memory_clients import InMemoryLog, Record
from airflow_provider.testing.source_rows import SourceRecord, SourceRows
from airflow_provider.testing.tested_instance import TestedInstance
from tests.builders import commit_of, job_of_result, spark_types, topic_facts

SUM, MAX = F.sum("amount").alias("total"), F.max("amount").alias("total")


def job_of(aggregate: Aggregate, topic: str = "orders") -> StatefulJob:
    orders = stream(topic, schema="customer STRING, amount DOUBLE", key="customer")
    return job_of_result(orders.group_by("customer").aggregate(aggregate))


SUMMED, LARGEST = job_of(SUM), job_of(MAX)


class Open(Protocol):
    def __call__(
        self, name: str, job: StatefulJob, topic_ids: Mapping[str, str] | None = None, /
    ) -> TestedInstance: ...


def compiled(job: StatefulJob, topic_ids: Mapping[str, str] | None = None) -> CompiledJob:
    return compile_job(job.certify(None), topic_facts(job, topic_ids=topic_ids or {}), spark_types())


@pytest.fixture
def open_instance(tmp_path: Path) -> Iterator[Open]:
    log, opened = InMemoryLog(), list[TestedInstance]()

    def open_(name: str, job: StatefulJob, topic_ids: Mapping[str, str] | None = None, /) -> TestedInstance:
        opened.append(TestedInstance(name, compiled(job, topic_ids), tmp_path, log))
        return opened[-1]

    yield open_
    for instance in opened:
        instance.close()


def process(instance: TestedInstance, job: StatefulJob, offset: int) -> None:
    record = Record(key=b"ann", value=b'{"customer":"ann","amount":2.5}', timestamp_ms=1)
    rows = SourceRows(compiled(job).stages[0].source).of([SourceRecord(partition=0, offset=offset, record=record)])
    (status,) = instance.process(rows, 0)
    assert (status.state, status.failure) == (TaskState.RUNNING, None)


def test_standby_says_that_it_could_not_take_over_and_goes_on_following(open_instance: Open) -> None:
    active, standby = (
        open_instance("i1", SUMMED),
        open_instance("i2", LARGEST),
    )
    active.become(Role.ACTIVE, 1)
    process(active, SUMMED, 0)
    standby.become(Role.STANDBY, 1)

    (status,) = standby.process((), 0)

    assert (status.state, status.lag_records, status.error_kind) == (TaskState.FOLLOWING, 0, "ConfigurationError")
    assert "sum(amount) of type double became max(amount)" in str(status.error)
    process(active, SUMMED, 1)
    assert standby.process((), 0)[0].lag_records == 0


def test_promoted_standby_that_would_misread_the_state_fails_without_a_write(open_instance: Open) -> None:
    active, standby = (
        open_instance("i1", SUMMED),
        open_instance("i2", LARGEST),
    )
    active.become(Role.ACTIVE, 1)
    process(active, SUMMED, 0)
    standby.become(Role.STANDBY, 1)
    standby.become(Role.ACTIVE, 2)

    (status,) = standby.process((), 0)

    assert (status.state, status.error_kind) == (TaskState.FAILED, "ConfigurationError")
    record = standby.tasks[TaskId(0, 0)].commit_record
    assert record is not None
    assert (record.generation, record.instance) == (1, "i1")


def test_commit_says_what_the_state_means(open_instance: Open) -> None:
    active = open_instance("i1", SUMMED)
    active.become(Role.ACTIVE, 1)
    process(active, SUMMED, 0)

    record = active.tasks[TaskId(0, 0)].commit_record

    assert record is not None
    signature = record.signature["state"]
    assert (signature.key, signature.key_type, signature.operation, signature.layout) == (
        "customer",
        "string",
        "aggregate",
        1,
    )
    assert [str(aggregate) for aggregate in signature.aggregates] == ["sum(amount) of type double"]


@pytest.mark.parametrize(
    ("now", "kind", "said"),
    [
        pytest.param(("orders", "id-1"), None, "", id="the-same"),
        pytest.param(
            ("orders", "id-2"), TopicMismatchError, "'orders' with the id id-1.*has the id id-2", id="created-again"
        ),
        pytest.param(("orders-2", "id-2"), ConfigurationError, "source 'orders' became 'orders-2'", id="another-topic"),
    ],
)
def test_offsets_of_one_source_are_not_taken_for_those_of_another(
    now: tuple[str, str], kind: type[Exception] | None, said: str
) -> None:
    topic, topic_id = now
    job = compiled(job_of(SUM, topic), {topic: topic_id}).specs[0]
    last = commit_of(sources={"orders": SourcePosition(5, "id-1")})
    if kind is None:
        assert continued_signature(job, last) == job.store.signature
        return
    with pytest.raises(kind, match=said):
        continued_signature(job, last)


def test_standby_says_that_the_source_was_created_again_and_goes_on_following(open_instance: Open) -> None:
    job = SUMMED
    active = open_instance("i1", job, {"orders": "id-1"})
    active.become(Role.ACTIVE, 1)
    process(active, job, 0)
    standby = open_instance("i2", job, {"orders": "id-2"})
    standby.become(Role.STANDBY, 1)

    (status,) = standby.process((), 0)

    assert (status.state, status.error_kind) == (TaskState.FOLLOWING, "TopicMismatchError")


@pytest.mark.parametrize(
    ("topic", "known", "refused"),
    [
        pytest.param("app-words-repartition", "id-1", True, id="between-two-stages"),
        pytest.param("app-words-repartition", "id-2", False, id="the-same"),
        pytest.param("lines", "id-1", False, id="a-source-is-its-own-tasks"),
    ],
)
def test_topic_between_two_stages_that_was_created_again_stops_all_of_them(
    topic: str, known: str, refused: bool
) -> None:
    """Else the stage before goes on, and nobody may read what it writes."""
    lines = stream("lines", schema="line STRING, number BIGINT", key="number")
    job = StatefulJob("app", lines.group_by("line").aggregate(F.count().alias("n"), name="words").sink("out"))
    stages = compiled(job, {"lines": "id-2", "app-words-repartition": "id-2"}).specs
    task = next(TaskId(number, 0) for number, stage in stages.items() if stage.input.topic == topic)
    last = commit_of(task=task, sources={topic: SourcePosition(5, known)}).to_bytes()

    with pytest.raises(TopicMismatchError, match="between two stages") if refused else nullcontext():
        refuse_state_of(stages, {task: last})
