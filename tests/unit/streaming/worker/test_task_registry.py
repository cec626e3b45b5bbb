"""Which tasks are open, and what an error of one does, on real stores."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.errors import (
    AccessError,
    BrokerUnreachableError,
    ConfigurationError,
    FencedError,
    ProcessError,
    StateError,
    StepError,
    StoreCorruptedError,
    StoreDivergedError,
    StoreLockedError,
    StoreOutdatedError,
    TopicDamagedError,
    TopicMismatchError,
    TopicMissingError,
)
from airflow_provider.state.store import Store
from airflow_provider.streaming.operations.batch import Changes
from airflow_provider.streaming.worker import task_registry
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from airflow_provider.streaming.worker.tasks.task_committer import BatchResult
from airflow_provider.testing.in_memory_clients import InMemoryLog
from tests.unit.streaming.worker.bench import GROUP, Bench, active, commit_elsewhere, standby


def commit(bench: Bench, source_offset: int) -> TaskStatus:
    """One record of the source, as the owner commits it; its status after that."""
    task = bench.registry.tasks[TaskId(0, 0)]
    changes = Changes([(b"k", b"1")], [])
    task.write(BatchResult(changes=changes, source_offset=source_offset, records=1), GROUP)
    return task.status()


def owned(status: TaskStatus) -> tuple[int | None, ...]:
    """What it did as the owner."""
    committed = (status.first_commit_at_ms, status.committed_generation, status.processed_records)
    return *committed, status.source_offset, status.resumed_offset, status.owned_at_ms


def quarantined(bench: Bench) -> list[Path]:
    return sorted(Path(bench.settings.state_dir).glob("app/quarantine/*"))


def befall(bench: Bench, error: Exception) -> None:
    with bench.registry.isolating(TaskId(0, 0)):
        raise error


def befall_batch(bench: Bench, error: Exception, attempts_left: bool, partition: int = 0) -> None:
    with bench.registry.isolating_batch(TaskId(0, partition), attempts_left):
        raise error


def test_call_opens_what_is_named_and_closes_what_is_not(bench: Bench) -> None:
    bench.hold(active(0), standby(1))
    assert sorted(bench.registry.tasks) == [TaskId(0, 0), TaskId(0, 1)]
    first = bench.registry.tasks[TaskId(0, 0)]

    bench.hold(standby(1))

    assert list(bench.registry.tasks) == [TaskId(0, 1)]
    assert first.state is TaskState.CLOSED
    assert bench.reader.assigned == {("app-state-changelog", 1)}


def test_open_task_is_opened_once(bench: Bench) -> None:
    bench.hold(standby(0))
    task = bench.registry.tasks[TaskId(0, 0)]

    bench.hold(standby(0))

    assert bench.registry.tasks[TaskId(0, 0)] is task


def test_replay_begins_with_an_empty_store_once(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0))

    bench.hold(standby(0, replay="r1"))
    task = bench.registry.tasks[TaskId(0, 0)]
    assert (task.status().restore.records, len(quarantined(bench))) == (2, 1)
    bench.hold(standby(0, replay="r1"))

    assert bench.registry.tasks[TaskId(0, 0)] is task
    assert [bench.registry.status(standby(0, replay=asked)).replay for asked in (None, "r1")] == [None, "r1"]


def test_store_is_released_to_another_worker_by_its_folder(bench: Bench) -> None:
    bench.hold(standby(0))
    path = bench.registry.tasks[TaskId(0, 0)].replica.store.path

    assert not bench.registry.release("/elsewhere")
    assert bench.registry.release(str(path))

    assert TaskId(0, 0) not in bench.registry.tasks
    Store(path, ["state"]).close()


def test_error_of_one_task_is_reported_and_the_others_go_on(bench: Bench) -> None:
    bench.hold(active(0), active(1))

    befall(bench, BrokerUnreachableError("no answer"))

    status = bench.registry.status(active(0))
    assert (status.state, status.error, status.error_kind) == (TaskState.OWNING, "no answer", "BrokerUnreachableError")
    assert bench.state(1) is TaskState.RUNNING
    assert bench.registry.status(active(1)).error is None


def test_next_call_forgets_the_error_and_tries_anew(bench: Bench) -> None:
    bench.hold(active(0))
    befall(bench, BrokerUnreachableError("no answer"))

    bench.hold(active(0))

    status = bench.registry.status(active(0))
    assert (status.state, status.error) == (TaskState.RUNNING, None)


def test_error_in_the_package_itself_is_not_hidden(bench: Bench) -> None:
    bench.hold(active(0))

    with pytest.raises(RuntimeError, match="a slip"):
        befall(bench, RuntimeError("a slip"))

    assert bench.state() is TaskState.RUNNING


@pytest.mark.parametrize("error", [StoreCorruptedError("bad"), StoreOutdatedError("old"), StoreDivergedError("other")])
def test_bad_store_is_moved_aside_and_restored_by_the_next_call(
    error: StateError, bench: Bench, log: InMemoryLog
) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0))

    befall(bench, error)
    assert (list(bench.registry.tasks), len(quarantined(bench))) == ([], 1)
    assert bench.registry.status(standby(0)).error == str(error)
    bench.hold(standby(0))

    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [b"1"]


def test_store_that_the_disk_refuses_is_opened_again_as_it_is(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0))

    befall(bench, OSError("no space left on device"))
    status = bench.registry.status(standby(0))
    assert (status.state, status.error_kind) == (TaskState.FOLLOWING, "StateError")
    assert "check the disk's space" in str(status.error)
    bench.hold(standby(0))

    assert (quarantined(bench), bench.registry.tasks[TaskId(0, 0)].status().restore.records) == ([], 0)


def test_active_that_lost_its_store_fails_while_a_standby_is_to_take_over(bench: Bench) -> None:
    plan = active(0, has_standbys=True)
    bench.hold(plan)

    befall(bench, StoreCorruptedError("bad"))
    bench.hold(plan)

    status = bench.registry.status(plan)
    assert (status.state, status.error_kind, status.error) == (
        TaskState.FAILED,
        "StoreCorruptedError",
        "bad A standby is to take over.",
    )
    assert list(bench.registry.tasks) == []


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(active(0, 2, has_standbys=True), id="newer-generation"),
        pytest.param(active(0, 1, has_standbys=False), id="the-standby-is-gone"),
        pytest.param(standby(0, 2), id="demoted"),
    ],
)
def test_lost_store_is_opened_again_when_the_assignment_says_otherwise(later: object, bench: Bench) -> None:
    plan = active(0, has_standbys=True)
    bench.hold(plan)
    befall(bench, StoreCorruptedError("bad"))

    bench.hold(later)  # type: ignore[arg-type]

    assert TaskId(0, 0) in bench.registry.tasks


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(StoreCorruptedError("bad"), id="replaced"),
        pytest.param(OSError("no space left on device"), id="closed"),
        pytest.param(TopicDamagedError("a record is damaged"), id="changelog-damaged"),
    ],
)
@pytest.mark.parametrize("backed", [pytest.param(True, id="backed"), pytest.param(False, id="alone")])
def test_owner_whose_store_is_closed_goes_on_reporting_what_it_committed(
    backed: bool, error: Exception, bench: Bench
) -> None:
    plan = active(0, 3, has_standbys=backed)
    bench.hold(plan)
    before = commit(bench, 5)

    befall(bench, error)

    status = bench.registry.status(plan)
    assert (status.state, status.position) == (TaskState.FAILED if backed else TaskState.OWNING, None)
    assert owned(status) == owned(before)
    assert (status.first_commit_at_ms is not None, status.committed_generation) == (True, 3)
    newer = bench.registry.status(active(0, 4))
    assert (newer.first_commit_at_ms, newer.processed_records, newer.source_offset) == (None, 0, None)
    assert bench.registry.status(standby(0, 3)).committed_generation is None


def test_owner_whose_store_is_opened_again_goes_on_counting(bench: Bench) -> None:
    bench.hold(active(0))
    before = commit(bench, 5)
    befall(bench, StoreCorruptedError("bad"))
    bench.hold(active(0), follow=False)
    befall(bench, StoreCorruptedError("bad again"))  # before anything was restored

    closed = bench.registry.status(active(0))
    bench.hold(active(0))
    after = commit(bench, 6)

    assert (closed.source_offset, closed.first_commit_at_ms) == (5, before.first_commit_at_ms)
    assert (after.processed_records, after.first_commit_at_ms) == (2, before.first_commit_at_ms)


def test_owner_that_may_not_open_its_store_again_goes_on_reporting_what_it_committed(bench: Bench) -> None:
    bench.hold(active(0))
    before = commit(bench, 5)
    befall(bench, StateError("disk full"))
    bench.reader.bounds_error = ConfigurationError("Reading the changelog is not authorized")
    bench.hold(active(0))

    status = bench.registry.status(active(0))

    assert (status.state, status.error_kind) == (TaskState.FAILED, "ConfigurationError")
    assert status.first_commit_at_ms == before.first_commit_at_ms
    bench.hold(active(0, 2), active(1))
    assert bench.registry.status(active(0, 2)).first_commit_at_ms is None


def test_store_that_another_process_holds_is_waited_for_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waited: list[float] = []

    def locked(*_: object, lock_timeout_s: float, **__: object) -> None:
        waited.append(lock_timeout_s)
        raise StoreLockedError("held")

    monkeypatch.setattr(task_registry, "open_replica", locked)

    for _ in range(3):
        bench.hold(standby(0))

    assert waited == [20.0, 0.0, 0.0]
    assert bench.registry.status(standby(0)).error_kind == "StoreLockedError"


@pytest.mark.parametrize("plan", [pytest.param(active(0), id="active"), pytest.param(standby(0), id="standby")])
@pytest.mark.parametrize(
    "later",
    [
        pytest.param(active(0, 2), id="active-of-a-newer-generation"),
        pytest.param(standby(0, 2), id="standby-of-a-newer-generation"),
    ],
)
def test_task_that_may_not_be_opened_fails_and_is_held_until_a_newer_generation(
    plan: TaskPlan, later: TaskPlan, bench: Bench
) -> None:
    bench.reader.bounds_error = ConfigurationError("Reading the changelog is not authorized")
    bench.hold(plan, active(1))
    bench.reader.bounds_error = None

    bench.hold(plan, active(1))

    status = bench.registry.status(plan)
    assert (status.state, status.error_kind) == (TaskState.FAILED, "ConfigurationError")
    assert status.error == str(bench.registry.error(TaskId(0, 0))) == "Reading the changelog is not authorized"
    bench.hold(later)
    assert bench.registry.status(later).error is None
    assert TaskId(0, 0) in bench.registry.tasks


def test_task_that_was_refused_is_opened_again_by_a_replay(bench: Bench) -> None:
    bench.reader.bounds_error = TopicMismatchError("the changelog was created again")
    bench.hold(active(0))
    bench.reader.bounds_error = None

    bench.hold(active(0, replay="r1"))

    assert bench.state() is TaskState.RUNNING


def test_task_whose_changelog_is_missing_for_now_is_opened_by_the_next_call(bench: Bench) -> None:
    bench.reader.bounds_error = TopicMissingError("no such topic yet")
    bench.hold(active(0))
    bench.reader.bounds_error = None

    bench.hold(active(0))

    assert bench.state() is TaskState.RUNNING


# -- errors of a batch -----------------------------------------------------------------------------------------------


def test_fenced_batch_lets_its_task_wait(bench: Bench) -> None:
    bench.hold(active(0))

    befall_batch(bench, FencedError("a newer owner exists"), attempts_left=True)

    assert bench.state() is TaskState.CLOSED
    assert bench.registry.tasks[TaskId(0, 0)].fenced_for_s > 0.0


def test_batch_that_spark_tries_again_raises_and_drops_the_producer(bench: Bench) -> None:
    bench.hold(active(0))

    with pytest.raises(ProcessError):
        befall_batch(bench, ProcessError("orders", 0, 5, "k", "poison"), attempts_left=True)

    assert bench.state() is TaskState.OWNING
    assert bench.registry.status(active(0)).error is None


def test_last_attempt_fails_the_task(bench: Bench) -> None:
    bench.hold(active(0))

    befall_batch(bench, ProcessError("orders", 0, 5, "k", "poison"), attempts_left=False)

    status = bench.registry.status(active(0))
    assert (status.state, status.error_kind) == (TaskState.FAILED, "ProcessError")


def test_store_that_a_batch_cannot_use_is_closed(bench: Bench) -> None:
    bench.hold(active(0))

    befall_batch(bench, StateError("disk full"), attempts_left=True)

    assert list(bench.registry.tasks) == []
    assert bench.registry.status(active(0)).error == "disk full"


def test_quarantine_is_pruned_when_all_is_restored(tmp_path: Path, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench = Bench(tmp_path, log, quarantine_max_stores=1)

    for replay in ("r0", "r1", "r2"):
        bench.hold(standby(0, replay=replay))

    assert len(quarantined(bench)) == 1
    bench.close()


def test_files_that_are_removed_under_an_open_store_are_noticed_and_it_is_restored(bench: Bench) -> None:
    commit_elsewhere(bench.log, 0, 1, k=1)
    bench.hold(standby(0))
    shutil.rmtree(bench.registry.tasks[TaskId(0, 0)].replica.store.path)

    bench.execution.apply_plan([standby(0)])
    status = bench.registry.status(standby(0))
    bench.hold(standby(0))

    assert status.error_kind == "StoreCorruptedError"
    assert "were removed: find out who did it" in str(status.error)
    assert bench.registry.status(standby(0)).error is None
    assert dict(bench.registry.tasks[TaskId(0, 0)].replica.items()) == {b"k": b"1"}


# -- tried again without a person --------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [active(0), standby(0)], ids=["active", "standby"])
def test_task_that_may_not_be_opened_is_tried_again_ever_less_often(plan: TaskPlan, bench: Bench) -> None:
    bench.reader.bounds_error = AccessError("Reading the changelog is not authorized")
    tried = []
    for second in range(40):
        bench.now = float(second)
        before = len(bench.reader.asked)
        bench.hold(plan)
        if len(bench.reader.asked) > before:
            tried.append(second)
        assert bench.registry.status(plan).state is TaskState.FAILED

    assert tried == [0, 5, 15, 35]
    bench.reader.bounds_error = None
    bench.now = 75.0
    bench.hold(plan)
    assert bench.registry.status(plan).error is None


def test_active_that_lost_a_right_runs_again_and_one_that_failed_by_its_record_does_not(
    bench: Bench,
) -> None:
    bench.hold(active(0), active(1))
    befall_batch(bench, AccessError("Writing is not authorized"), attempts_left=True)
    befall_batch(bench, StepError("no number"), attempts_left=True, partition=1)

    bench.now = 4.0
    bench.hold(active(0), active(1))
    assert [bench.state(task) for task in (0, 1)] == [TaskState.FAILED, TaskState.FAILED]
    bench.now = 1_000.0
    bench.hold(active(0), active(1))
    assert [bench.state(task) for task in (0, 1)] == [TaskState.RUNNING, TaskState.FAILED]
