from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.errors import StoreDivergedError
from airflow_provider.state.digest import digest_of
from airflow_provider.streaming.worker.standby.standby_duties import StandbyDuties
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from airflow_provider.streaming.worker.tasks.task import Task
from tests.builders import active, standby
from tests.unit.streaming.worker.bench import instance_settings, job_spec


class FakeScan:
    """Done at once."""

    done = True

    def __init__(self, found: int) -> None:
        self._found = found

    def result(self) -> int:
        return self._found

    def cancel(self) -> None:
        """Nothing goes on."""


class FakeStandby:
    """At the end of its changelog, where its active had the digest of ``{k: v}``."""

    changelog, state, reached_end = "app-state-changelog", TaskState.FOLLOWING, True
    settings = SimpleNamespace(instance="i1")

    def __init__(self, partition: int, value: bytes = b"v") -> None:
        self.id, self.partition = TaskId(0, partition), partition
        self.position = SimpleNamespace(offset=10)
        self.digest = f"{digest_of([b'k'], [b'v']):016x}"
        self._found = digest_of([b"k"], [value])
        self.scans = 0
        self.plan = TaskPlan(task=self.id, role=Role.STANDBY, generation=1)

    @property
    def replica(self) -> FakeStandby:
        return self

    def scan(self) -> FakeScan:
        self.scans += 1
        return FakeScan(self._found)


class Isolation:
    """Remembers the errors by task."""

    def __init__(self) -> None:
        self.errors: dict[TaskId, Exception] = {}

    @contextlib.contextmanager
    def __call__(self, task_id: TaskId) -> Iterator[None]:
        try:
            yield
        except StoreDivergedError as error:
            self.errors[task_id] = error


@pytest.fixture
def duties(tmp_path: Path) -> StandbyDuties:
    return StandbyDuties(instance_settings(tmp_path), {0: dataclasses.replace(job_spec(), certify_interval_s=600.0)})


def tick(duties: StandbyDuties, *tasks: FakeStandby) -> dict[TaskId, Exception]:
    isolation = Isolation()
    duties.tick(cast(list[Task], list(tasks)), isolation)
    return isolation.errors


def test_standbys_are_compared_one_at_a_time(duties: StandbyDuties) -> None:
    first, second = FakeStandby(0), FakeStandby(1)

    tick(duties, first, second)
    assert (first.scans, second.scans) == (1, 0)
    tick(duties, first, second)

    assert (first.scans, second.scans) == (1, 1)
    assert duties.with_status(standby(0)).certificate.position == 10
    assert duties.with_status(standby(1)).certificate.position is None
    assert duties.with_status(active(0)) == active(0), "an active is never certified"


def test_standby_that_differs_is_its_own_error_and_its_successor_is_restored_from_the_changelog_alone(
    duties: StandbyDuties, tmp_path: Path
) -> None:
    wrong = FakeStandby(0, value=b"other")
    tick(duties, wrong)

    errors = tick(duties, wrong)

    assert list(errors) == [TaskId(0, 0)]
    assert duties.with_status(standby(0)).certificate.divergences == 1
    nothing_asked = cast(RestoreConsumer, object())
    assert not duties.awaits_snapshot(TaskId(0, 0), tmp_path / "state", nothing_asked, replay=False)


def test_only_standbys_are_compared(duties: StandbyDuties) -> None:
    restoring: Any = FakeStandby(0)
    restoring.state = TaskState.RESTORING

    tick(duties, restoring)

    assert restoring.scans == 0


def test_standby_is_compared_when_its_plan_asks_for_it(tmp_path: Path) -> None:
    never = StandbyDuties(instance_settings(tmp_path), {0: dataclasses.replace(job_spec(), certify_interval_s=None)})
    asked, other = FakeStandby(0), FakeStandby(1)
    asked.plan = dataclasses.replace(asked.plan, certify="c1")

    for _ in range(3):
        tick(never, other, asked)

    assert (asked.scans, other.scans) == (1, 0)
    assert never.with_status(standby(0)).certificate.command == "c1"


def test_comparison_of_a_standby_that_fails_meanwhile_gives_way_to_the_others(duties: StandbyDuties) -> None:
    failing: Any = FakeStandby(0)
    other = FakeStandby(1)
    tick(duties, failing, other)
    failing.state = TaskState.FAILED

    tick(duties, failing, other)
    tick(duties, failing, other)

    assert duties.with_status(standby(1)).certificate.position == 10
    assert duties.with_status(standby(0)).certificate.position is None


def test_comparison_ends_with_the_store(duties: StandbyDuties) -> None:
    tick(duties, FakeStandby(0))

    assert not duties.end(TaskId(0, 0))

    again = FakeStandby(1)
    tick(duties, again)
    assert again.scans == 1
