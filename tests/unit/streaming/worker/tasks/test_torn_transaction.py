"""Changes that no commit record follows, in the changelog of a task that is restored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider.changelog.commit_record import COMMIT_KEY
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.kafka.names import transactional_id
from airflow_provider.state.digest import digest_of
from airflow_provider.streaming.json.user_values import encode_state
from airflow_provider.streaming.worker.step.active_step import active_step
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.testing.in_memory_clients import InMemoryLog, Record
from tests.unit.streaming.worker.bench import APPLICATION, CHANGELOG, GROUP, Bench, active, records_of, rows, standby

TASK = TaskId(0, 0)


def tear(log: InMemoryLog, **values: bytes | None) -> None:
    """Half of a transaction: changes without their commit record."""
    producer = transactional_id(APPLICATION, TASK)
    changes = [(CHANGELOG, 0, Record(key=k.encode(), value=v, timestamp_ms=1)) for k, v in values.items()]
    log.commit(producer, log.fence(producer), changes)


def step(task: Task, table: pa.Table) -> None:
    result = active_step(task, table)
    assert result is not None
    task.write(result, GROUP)


@pytest.fixture
def committed(bench: Bench) -> Bench:
    """A task with one commit: the last amount of the only key, 5."""
    bench.hold(active(0))
    step(bench.registry.tasks[TASK], rows(3, 5))
    return bench


def goes_on(bench: Bench, generation: int) -> None:
    """It holds what was committed, and counts the torn transaction's rows once."""
    task = bench.registry.tasks[TASK]
    assert (task.state, task.error) == (TaskState.RUNNING, None)
    assert task.replica.get_many([b"k", b"new"]) == [encode_state(5), None]
    assert task.digest == f"{digest_of([b'k'], [encode_state(5)]):016x}"
    assert task.source_offset == 2
    step(task, rows(7, begin=2))
    assert task.commit_record is not None
    assert (task.commit_record.generation, task.commit_record.processed) == (generation, 3)


def owned_by_the_same(bench: Bench, *_: object) -> Bench:
    bench.hold(active(0, 2))
    return bench


def owned_by_an_empty_one(bench: Bench, another: Callable[[str], Bench]) -> Bench:
    empty = another("empty")
    empty.hold(active(0, 2))
    return empty


def owned_by_a_standby_that_followed(bench: Bench, another: Callable[[str], Bench]) -> Bench:
    followed = another("standby")
    followed.hold(standby(0))
    assert followed.registry.tasks[TASK].replica.get_many([b"k"]) == [b"torn"], "a standby applies what comes"
    followed.hold(active(0, 2))
    return followed


@pytest.fixture
def another(tmp_path: Path, log: InMemoryLog) -> Callable[[str], Bench]:
    return lambda name: Bench(tmp_path / name, log)


@pytest.mark.parametrize("own", [owned_by_the_same, owned_by_an_empty_one, owned_by_a_standby_that_followed])
def test_half_of_a_transaction_is_undone_before_a_row_is_processed(
    own: Callable[..., Bench], committed: Bench, log: InMemoryLog, another: Callable[[str], Bench]
) -> None:
    tear(log, k=b"torn", new=b"torn")
    tear(log, k=b"torn", new=None)
    tear(log, new=b"torn")

    owner = own(committed, another)

    undone = dict(records_of(log, 0)[-3:])
    assert (undone[b"k"], undone[b"new"]) == (encode_state(5), None)
    assert COMMIT_KEY in undone
    goes_on(owner, generation=2)
    late = another("late")
    late.hold(standby(0))
    assert late.registry.tasks[TASK].replica.get_many([b"k", b"new"]) == [encode_state(7), None]


def test_what_the_keys_held_must_be_proven_by_the_digest(
    committed: Bench, log: InMemoryLog, another: Callable[[str], Bench]
) -> None:
    """As where the value before was compacted away."""
    last = committed.registry.tasks[TASK].commit_record
    assert last is not None
    wrong = dataclasses.replace(last, sequence=2, digests={"state": "0" * 16})
    tear(log, **{"x": b"1"})
    producer = transactional_id(APPLICATION, TASK)
    log.commit(
        producer, log.fence(producer), [(CHANGELOG, 0, Record(key=COMMIT_KEY, value=wrong.to_bytes(), timestamp_ms=1))]
    )
    tear(log, k=b"torn")
    before = records_of(log, 0)

    owner = another("owner")
    owner.hold(active(0, 2))

    task = owner.registry.tasks[TASK]
    assert task.state is TaskState.FAILED
    assert "holds changes of 1 key(s), from offset" in str(task.error)
    assert "Changes without a commit" in str(task.error)
    assert records_of(log, 0) == before


def test_changes_without_any_commit_are_not_taken_for_the_state(log: InMemoryLog, bench: Bench) -> None:
    tear(log, k=b"torn")

    bench.hold(active(0))

    assert bench.state() is TaskState.FAILED
    assert "There is no commit of this task at all" in str(bench.registry.tasks[TASK].error)


def test_open_half_is_no_business_of_a_standby(committed: Bench, log: InMemoryLog) -> None:
    tear(log, k=b"torn")

    committed.hold(standby(0, 2))

    assert committed.state() is TaskState.FOLLOWING
