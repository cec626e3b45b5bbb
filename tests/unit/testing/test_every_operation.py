"""What is promised of every operation, over the table of them: where batches end, crashes, restarts, certificates."""

# ruff: noqa: SLF001 - what an instance died of, and with, is none of a user's business

from __future__ import annotations

import functools
import itertools
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_provider.control.records.status import Role
from airflow_provider.failpoint import FailPoint, FailPoints
from airflow_provider.streaming.operations.batch import StoreReader, timer_counts
from airflow_provider.streaming.worker.standby.standby_duties import Certification
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.testing import InputRecord, JobTester, check_batching
from airflow_provider.testing.in_memory_clients import InMemoryWriter
from airflow_provider.testing.tested_instance import TestedInstance
from tests.unit.testing.operations import OPERATIONS, Operation
from tests.waiting import wait_until

pytestmark = pytest.mark.long

RECORDS: Final = 72
BATCH: Final = 4
IN_TRANSACTION: Final = (
    FailPoint.COMMIT_BEGUN,
    FailPoint.COMMIT_CHANGES,
    FailPoint.COMMIT_OUTPUTS,
    FailPoint.COMMIT_RECORD,
    FailPoint.COMMIT_OFFSETS,
)


@pytest.fixture(params=OPERATIONS)
def operation(request: pytest.FixtureRequest) -> Operation:
    return OPERATIONS[request.param]


# -- where micro-batches end ----------------------------------------------------------------------------------------


def test_result_does_not_depend_on_micro_batches(operation: Operation) -> None:
    seed = random.SystemRandom().randrange(2**32)
    check_batching(operation.job, operation.records(seed, 24), seed=seed, cuts=3)


# -- crashes --------------------------------------------------------------------------------------------------------


class DiedError(BaseException):
    """What SIGKILL is to a process is this to a call."""


class Deaths:
    """Has an instance die at a fail point; what lay on its disk then is what is found."""

    def __init__(self) -> None:
        self.died: Counter[FailPoint] = Counter()
        self._armed: tuple[FailPoint, int] | None = None
        self._instance: TestedInstance | None = None

    def arm(self, instance: TestedInstance, point: FailPoint, nth: int) -> None:
        """At the n-th passing from now on."""
        self._instance, self._armed = instance, (point, nth)

    def hit(self, point: FailPoint) -> None:
        if self._armed is None or self._armed[0] != point:
            return
        if self._armed[1] > 1:
            self._armed = point, self._armed[1] - 1
            return
        assert self._instance is not None
        self._armed = None
        self.died[point] += 1
        disk = disk_of(self._instance)
        if disk.exists():
            wait_until(
                functools.partial(copied, disk, left_by(disk)), 60.0, "a copy of the disk as it is at one moment"
            )
        raise DiedError(point)

    @contextmanager
    def survived(self) -> Iterator[list[FailPoint]]:
        """What is done in it may be cut off; then the instance is gone, and the list says so."""
        cut: list[FailPoint] = []
        try:
            yield cut
        except DiedError as death:
            assert self._instance is not None
            cut.append(death.args[0])
            disk = disk_of(self._instance)
            self._instance.close()
            shutil.rmtree(disk, ignore_errors=True)
            if left_by(disk).exists():
                left_by(disk).rename(disk)


def disk_of(instance: TestedInstance) -> Path:
    return Path(instance._settings.state_dir)


def left_by(disk: Path) -> Path:
    return disk.with_name("left")


def copied(disk: Path, to: Path) -> bool:
    """Whether no compaction, which goes on beside, changed the folder while it was copied."""
    shutil.rmtree(to, ignore_errors=True)
    before = sorted(disk.rglob("*"))
    try:
        shutil.copytree(disk, to)
    except shutil.Error:
        return False
    return sorted(disk.rglob("*")) == before


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Deaths:
    deaths = Deaths()
    commit = InMemoryWriter.commit

    def passing_the_points(writer: InMemoryWriter, *given: Any) -> Any:
        """As `TransactionalWriter`: nothing of the transaction is there before it is committed."""
        for point in IN_TRANSACTION:
            deaths.hit(point)
        written = commit(writer, *given)
        deaths.hit(FailPoint.COMMIT_DONE)
        return written

    monkeypatch.setattr(FailPoints, "hit", lambda _, point: deaths.hit(point))
    monkeypatch.setattr(InMemoryWriter, "commit", passing_the_points)
    return deaths


def resume(tester: JobTester) -> None:
    tester.restart()


def restore(tester: JobTester) -> None:
    tester.restart(store="empty")


def promote(tester: JobTester) -> None:
    tester.promote_standby()


def follow(tester: JobTester) -> TestedInstance:
    """The standby, at the end of the changelogs."""
    standby = tester._standby
    standby.become(Role.STANDBY, tester._generation)
    return standby


def facts_of(tester: JobTester, operation: Operation) -> dict[str, Any]:
    """What the input came to."""
    outputs = [(sink, record) for sink in tester._sinks for record in tester.read_output(sink)]
    stores = [stage.spec.store.name for stage in tester._job.stages if stage.spec.keeps_state]
    newest = {(sink, record.key): record.value for sink, record in outputs}
    return {
        "counts": tester.counts,
        "states": {store: tester.states(store) for store in stores},
        "newest": {key: value for key, value in newest.items() if value is not None},
        "each": Counter(json.dumps([sink, r.key, r.value], sort_keys=True) for sink, r in outputs)
        if operation.once
        else None,
    }


def batches_of(operation: Operation, seed: int) -> list[list[InputRecord]]:
    """Each of records of one topic, so that all of it is in its topic before anything of it is processed."""
    records = operation.records(seed, RECORDS)
    parts = (records[n : n + BATCH] for n in range(0, len(records), BATCH))
    return [list(run) for part in parts for _, run in itertools.groupby(part, lambda record: record.topic)]


@functools.cache
def undisturbed(name: str, seed: int) -> dict[str, Any]:
    return undisturbed_by(OPERATIONS[name], seed)


def undisturbed_by(operation: Operation, seed: int) -> dict[str, Any]:
    """What the input comes to where nothing dies."""
    with JobTester(operation.job) as tester:
        for batch in batches_of(operation, seed):
            tester.pipe_inputs(batch)
        return facts_of(tester, operation)


@pytest.mark.parametrize("successor", [resume, restore, promote])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_record_counts_once_though_its_instance_dies_at_every_fail_point(
    name: str, successor: Callable[[JobTester], None], deaths: Deaths
) -> None:
    seed = random.SystemRandom().randrange(100)
    print(f"seed {seed}")
    assert_each_record_counts_once(OPERATIONS[name], seed, undisturbed(name, seed), successor, deaths)


def assert_each_record_counts_once(
    operation: Operation, seed: int, expected: dict[str, Any], successor: Callable[[JobTester], None], deaths: Deaths
) -> None:
    """Though the instance dies at every fail point, and what comes then is `successor`."""
    chance = random.Random(seed)
    points = chance.sample(list(FailPoint), len(FailPoint))
    with JobTester(operation.job) as tester:
        for batch in batches_of(operation, seed):
            point = points.pop() if points else None
            if successor is promote:
                follow(tester)
            with deaths.survived() as cut:
                if point is not None:
                    # In each stage at times; one that is passed less often comes again with another batch.
                    deaths.arm(tester._active, point, chance.randint(1, len(tester._job.stages)))
                tester.pipe_inputs(batch)
                if point is FailPoint.FENCE_BEFORE or point is FailPoint.FENCE_DONE:
                    tester.restart()
            if cut:
                successor(tester)
            elif point is not None:
                points.append(point)
        assert set(deaths.died) == set(FailPoint)
        assert facts_of(tester, operation) == expected
        assert_certified(tester)


def assert_certified(tester: JobTester) -> None:
    """Each standby's store holds what its active's commits say, and so does each active's."""
    for task in tester._active.tasks.values():
        assert f"{task.replica.scan().result():016x}" == task.digest
        if (record := task.commit_record) is not None:
            # What was counted with each commit is what the store has.
            prefixes, state = task.operation.timer_prefixes, StoreReader(task.replica)
            assert record.timers == timer_counts(prefixes, {}, [], state)
    for task in follow(tester).tasks.values():
        certification = Certification()
        certification.tick(task, 0.0, may_begin=True)
        wait_until(functools.partial(is_certified, certification, task), 30, f"{task.id} to be certified")


def is_certified(certification: Certification, task: Task) -> bool:
    certification.tick(task, None, may_begin=True)
    return certification.certified
