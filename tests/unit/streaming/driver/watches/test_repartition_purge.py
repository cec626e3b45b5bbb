from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import InstanceStatus, TaskState, TaskStatus
from airflow_provider.streaming.driver.watches.last_heartbeat import RepartitionPurge, next_purge
from airflow_provider.streaming.planner.compile import TopicFacts, compile_job
from tests.builders import active, instance, spark_types, standby
from tests.unit.testing.word_count import LINES, WORDS, job_of

FIRST, SECOND = TaskId(1, 0), TaskId(1, 1)


class Deletions:
    def __init__(self) -> None:
        self.made: list[tuple[str, Mapping[int, int]]] = []
        self.error: Exception | None = None

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        if self.error is not None:
            raise self.error
        self.made.append((name, before))


class Watched:
    """An instance with the tasks of two stages."""

    def __init__(self) -> None:
        facts = TopicFacts(
            partitions={LINES: 2, WORDS: 2}, delete_retention_ms={"words-0-commits": 1, "words-counts-changelog": 1}
        )
        self.deletions, self.tasks = Deletions(), list[TaskStatus]()
        self.purge = RepartitionPurge(
            self.deletions, compile_job(job_of(combine=True), facts, spark_types()), lambda: self.status, 0.01
        )

    @property
    def status(self) -> InstanceStatus:
        return instance("i1", *self.tasks)

    def look(self, *tasks: TaskStatus) -> list[tuple[str, Mapping[int, int]]]:
        self.tasks = list(tasks)
        self.deletions.made.clear()
        self.purge.look()
        return list(self.deletions.made)


def test_what_two_looks_found_committed_goes_but_for_the_last_record() -> None:
    watched = Watched()

    assert watched.look(active(FIRST, source_offset=10), active(SECOND, source_offset=5)) == []
    assert watched.look(active(FIRST, source_offset=30), active(SECOND, source_offset=5)) == [(WORDS, {0: 9, 1: 4})]
    assert watched.look(active(FIRST, source_offset=30), active(SECOND, source_offset=5)) == [(WORDS, {0: 29})]
    assert watched.look(active(FIRST, source_offset=30), active(SECOND, source_offset=5)) == []


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(active(TaskId(0, 0), source_offset=9), id="of-the-users-own-topic"),
        pytest.param(standby(FIRST, source_offset=9), id="standby"),
        pytest.param(active(FIRST, state=TaskState.RESTORING, source_offset=9), id="not-running"),
        pytest.param(active(FIRST), id="nothing-committed"),
    ],
)
def test_what_is_not_processed_here_stays(task: TaskStatus) -> None:
    watched = Watched()

    assert watched.look(task) == watched.look(task) == []


def test_deletion_that_failed_is_tried_again() -> None:
    watched, task = Watched(), active(FIRST, source_offset=10)
    watched.look(task)
    watched.deletions.error = RuntimeError("no right")
    with pytest.raises(RuntimeError):
        watched.look(task)
    watched.deletions.error = None

    assert watched.look(task) == [(WORDS, {0: 9})]


def test_position_that_fell_back_bounds_what_goes() -> None:
    assert next_purge({FIRST: 20}, {FIRST: 8}, {}) == {FIRST: 7}
