from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.errors import BrokerUnreachableError, ProcessError
from airflow_provider.streaming.json.user_values import encode_state
from airflow_provider.streaming.worker.step import batch_processor
from airflow_provider.streaming.worker.step.batch_processor import BatchProcessor, CrashCounter, Place
from airflow_provider.testing.in_memory_clients import InMemoryLog
from tests.unit.streaming.worker.bench import GROUP, Bench, active, commit_elsewhere, records_of, rows, standby


@pytest.fixture
def crashes(tmp_path: Path) -> CrashCounter:
    return CrashCounter(tmp_path / "run")


@pytest.fixture
def processor(bench: Bench, crashes: CrashCounter) -> BatchProcessor:
    return BatchProcessor(
        tasks=bench.registry.tasks,
        isolating_batch=bench.registry.isolating_batch,
        own_again=bench.execution.own_again,
        catch_up=bench.follower.follow,
        group=GROUP,
        crashes=crashes,
        call_timeout_s=600.0,
    )


def test_rows_of_running_tasks_are_processed(processor: BatchProcessor, bench: Bench) -> None:
    bench.hold(active(0), active(1))

    skipped = processor.process([(0, rows(1, 2)), (1, rows(3))], dict.fromkeys([TaskId(0, 0), TaskId(0, 1)]), False, 3)

    assert skipped == set()
    assert [bench.registry.tasks[TaskId(0, p)].replica.get_many([b"k"]) for p in (0, 1)] == [
        [encode_state(2)],
        [encode_state(3)],
    ]
    assert bench.registry.tasks[TaskId(0, 0)].source_offset == 2


def test_what_processing_and_commits_take_is_counted_apart(
    processor: BatchProcessor, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.hold(active(0))
    task = bench.registry.tasks[TaskId(0, 0)]
    commit = task.committer.commit

    def slow(*given: Any) -> None:
        time.sleep(0.2)
        commit(*given)

    monkeypatch.setattr(task.committer, "commit", slow)
    began = time.monotonic()
    processor.process([(0, rows(1, 2))], {TaskId(0, 0): None}, False, 3)
    took_s = time.monotonic() - began

    work = task.status().work
    assert work.commits == 1
    assert work.commit_s >= 0.2
    assert 0 < work.process_s <= took_s - work.commit_s


def test_rows_that_the_call_may_not_process_are_left_alone(processor: BatchProcessor, bench: Bench) -> None:
    bench.hold(active(0))

    assert processor.process([(0, rows(1))], {}, False, 3) == set()

    assert bench.registry.tasks[TaskId(0, 0)].source_offset is None


def test_rows_of_a_task_that_does_not_run_are_skipped(processor: BatchProcessor, bench: Bench) -> None:
    bench.hold(standby(0))

    assert processor.process([(0, rows(1)), (7, rows(1))], dict.fromkeys([TaskId(0, 0), TaskId(0, 7)]), False, 3) == {
        TaskId(0, 0),
        TaskId(0, 7),
    }


def test_later_rows_of_a_task_that_was_skipped_are_no_gap(
    processor: BatchProcessor, bench: Bench, log: InMemoryLog
) -> None:
    bench.hold(standby(0))

    def parts() -> object:
        yield 0, rows(1)
        bench.hold(active(0, 2))
        yield 0, rows(2, begin=1)

    skipped = processor.process(parts(), dict.fromkeys([TaskId(0, 0)]), False, 3)  # type: ignore[arg-type]

    assert (skipped, bench.registry.tasks[TaskId(0, 0)].state) == ({TaskId(0, 0)}, TaskState.RUNNING)
    assert records_of(log, 0) == []


def test_rows_that_would_leave_a_gap_behind_a_store_that_went_back_are_skipped(
    processor: BatchProcessor, bench: Bench, log: InMemoryLog
) -> None:
    bench.hold(active(0))

    assert processor.process([(0, rows(5, begin=3))], {TaskId(0, 0): 3}, False, 3) == {TaskId(0, 0)}
    assert records_of(log, 0) == []

    assert processor.process([(0, rows(5, 6, 7, 8))], {TaskId(0, 0): None}, False, 3) == set()
    assert processor.process([(0, rows(9, begin=4))], {TaskId(0, 0): 4}, False, 3) == set()
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [encode_state(9)]


def test_task_that_lacks_little_catches_up_before_its_rows(
    processor: BatchProcessor, bench: Bench, log: InMemoryLog
) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(active(0, 2), follow=False)
    assert bench.state() is TaskState.RESTORING

    assert processor.process([(0, rows(5, begin=100))], dict.fromkeys([TaskId(0, 0)]), False, 3) == set()

    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [encode_state(5)]


def test_error_that_another_attempt_may_get_past_ends_the_call(processor: BatchProcessor, bench: Bench) -> None:
    bench.hold(active(0))
    bench.writers[0].error = BrokerUnreachableError("no answer")

    with pytest.raises(BrokerUnreachableError):
        processor.process([(0, rows(1))], dict.fromkeys([TaskId(0, 0)]), False, 3)

    assert bench.state() is TaskState.OWNING
    bench.hold(active(0))
    processor.process([(0, rows(1))], dict.fromkeys([TaskId(0, 0)]), False, 3)
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [encode_state(1)]


def test_task_whose_commit_may_be_ended_twice_is_owned_again_before_its_next_rows(
    processor: BatchProcessor, bench: Bench
) -> None:
    bench.hold(active(0))
    bench.writers[0].slow = True

    skipped = processor.process([(0, rows(1)), (0, rows(2, begin=1))], dict.fromkeys([TaskId(0, 0)]), False, 3)

    assert (skipped, bench.state()) == (set(), TaskState.RUNNING)
    assert bench.writers[0].closed
    assert len(bench.writers) == 2
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [encode_state(2)]


def test_task_that_cannot_be_owned_again_at_once_has_committed_and_waits_for_the_next_call(
    processor: BatchProcessor, bench: Bench
) -> None:
    bench.hold(active(0))
    bench.writers[0].slow = True
    bench.fence_errors.append(BrokerUnreachableError("no answer"))

    skipped = processor.process([(0, rows(1)), (0, rows(2, begin=1))], dict.fromkeys([TaskId(0, 0)]), False, 3)

    assert (skipped, bench.state()) == ({TaskId(0, 0)}, TaskState.OWNING)
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [encode_state(1)]


def test_poison_fails_its_task_at_the_last_attempt_and_no_other(processor: BatchProcessor, bench: Bench) -> None:
    bench.hold(active(0), active(1))
    with pytest.raises(ProcessError):
        processor.process([(0, rows(666))], dict.fromkeys([TaskId(0, 0), TaskId(0, 1)]), True, 3)
    bench.hold(active(0), active(1))

    skipped = processor.process([(0, rows(666)), (1, rows(1))], dict.fromkeys([TaskId(0, 0), TaskId(0, 1)]), False, 3)

    assert skipped == set()
    assert [bench.state(p) for p in (0, 1)] == [TaskState.FAILED, TaskState.RUNNING]


def test_fenced_task_waits_and_its_later_rows_are_skipped(
    processor: BatchProcessor, bench: Bench, log: InMemoryLog
) -> None:
    bench.hold(active(0))
    commit_elsewhere(log, 0, 2, k=9)

    skipped = processor.process([(0, rows(1)), (0, rows(2, begin=1))], dict.fromkeys([TaskId(0, 0)]), True, 3)

    assert skipped == {TaskId(0, 0)}
    assert bench.state() is TaskState.CLOSED


@pytest.mark.parametrize(("crashed", "state"), [(2, TaskState.RUNNING), (3, TaskState.FAILED)])
def test_batch_in_which_workers_died_is_refused_at_the_bound(
    crashed: int, state: TaskState, processor: BatchProcessor, bench: Bench, crashes: CrashCounter
) -> None:
    bench.hold(active(0))
    crashes.note(Place(TaskId(0, 0), 1, None), crashed)

    processor.process([(0, rows(1))], dict.fromkeys([TaskId(0, 0)]), True, 3)

    status = bench.registry.tasks[TaskId(0, 0)].status()
    assert status.state is state
    if state is TaskState.FAILED:
        assert status.error_kind == "WorkerError"
        assert "3 worker(s) ended in the middle of the batch of orders[0]" in str(status.error)
    assert crashes.of(Place(TaskId(0, 0), 1, None)) is None, "it came to an end, good or bad"


def test_tasks_are_written_side_by_side(
    processor: BatchProcessor, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.hold(active(0), active(1))
    together = threading.Barrier(2)
    for task in bench.registry.tasks.values():
        monkeypatch.setattr(task.committer, "commit", partial(_after, together, task.committer.commit))

    processor.process([(0, rows(1)), (1, rows(3))], dict.fromkeys([TaskId(0, 0), TaskId(0, 1)]), False, 3)

    assert [bench.registry.tasks[TaskId(0, p)].source_offset for p in (0, 1)] == [1, 1]


def _after(together: threading.Barrier, commit: Callable[..., None], *given: Any) -> None:
    together.wait(30)
    commit(*given)


def test_tasks_with_many_rows_are_written_one_after_the_other(
    processor: BatchProcessor, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.hold(active(0), active(1))
    monkeypatch.setattr(batch_processor, "_MUCH_ROWS", 2)
    before = list[int | None]()
    first, second = (bench.registry.tasks[TaskId(0, p)] for p in (0, 1))
    commit = first.committer.commit

    def write(*given: Any) -> None:
        before.append(second.source_offset)
        commit(*given)

    monkeypatch.setattr(first.committer, "commit", write)
    processor.process([(1, rows(3, 4)), (0, rows(1))], dict.fromkeys([TaskId(0, 0), TaskId(0, 1)]), False, 3)

    assert before == [2]


def test_error_of_a_write_ends_the_call_once_all_others_are_written(processor: BatchProcessor, bench: Bench) -> None:
    bench.hold(active(0), active(1), active(2))
    bench.writers[0].error = BrokerUnreachableError("no answer")

    with pytest.raises(BrokerUnreachableError):
        processor.process([(p, rows(1)) for p in range(3)], dict.fromkeys(TaskId(0, p) for p in range(3)), False, 3)

    assert [bench.registry.tasks[TaskId(0, p)].source_offset for p in range(3)] == [None, 1, 1]
    assert [bench.state(p) for p in range(3)] == [TaskState.OWNING, TaskState.RUNNING, TaskState.RUNNING]


def test_error_of_rows_does_not_take_along_what_came_before(processor: BatchProcessor, bench: Bench) -> None:
    bench.hold(active(0), active(1))

    with pytest.raises(ProcessError):
        processor.process([(0, rows(1)), (1, rows(666))], dict.fromkeys([TaskId(0, 0), TaskId(0, 1)]), True, 3)

    assert bench.registry.tasks[TaskId(0, 0)].source_offset == 1


def noted_while_written(
    processor: BatchProcessor, bench: Bench, crashes: CrashCounter, monkeypatch: pytest.MonkeyPatch
) -> list[list[int | None]]:
    """What the notes of two tasks would say to the next worker if this one ended in a write, at each write."""
    bench.hold(active(0), active(1))
    noted, lock = list[list[int | None]](), threading.Lock()

    def look(commit: Callable[..., None], *given: Any) -> None:
        with lock:
            noted.append([crashes.of(Place(TaskId(0, p), 1, None)) for p in (0, 1)])
        both.wait(30)
        commit(*given)

    together = all(crashes.of(Place(TaskId(0, p), 1, None)) is None for p in (0, 1))
    both = threading.Barrier(2 if together else 1)
    for task in bench.registry.tasks.values():
        monkeypatch.setattr(task.committer, "commit", partial(look, task.committer.commit))
    processor.process([(0, rows(1)), (1, rows(1))], dict.fromkeys([TaskId(0, 0), TaskId(0, 1)]), False, 3)
    assert [crashes.of(Place(TaskId(0, p), 1, None)) for p in (0, 1)] == [None, None]
    return noted


def test_worker_that_ends_while_several_are_written_is_none_of_theirs_to_answer_for(
    processor: BatchProcessor, bench: Bench, crashes: CrashCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert noted_while_written(processor, bench, crashes, monkeypatch) == [[0, 0], [0, 0]]


def test_task_whose_worker_ended_is_written_alone_so_that_the_next_end_is_its_own(
    processor: BatchProcessor, bench: Bench, crashes: CrashCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition, before in ((0, 0), (1, 2)):
        crashes.note(Place(TaskId(0, partition), 1, None), before)

    assert noted_while_written(processor, bench, crashes, monkeypatch) == [[1, 2], [None, 3]]


def test_end_of_a_worker_while_a_task_is_written_by_itself_counts(
    processor: BatchProcessor, bench: Bench, crashes: CrashCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.hold(active(0))
    task, noted = bench.registry.tasks[TaskId(0, 0)], list[int | None]()
    commit = task.committer.commit

    def look(*given: Any) -> None:
        noted.append(crashes.of(Place(TaskId(0, 0), 1, None)))
        commit(*given)

    monkeypatch.setattr(task.committer, "commit", look)
    processor.process([(0, rows(1))], {TaskId(0, 0): None}, False, 3)

    assert noted == [1]


def test_rows_belong_to_the_stage_whose_tasks_the_call_names(processor: BatchProcessor, bench: Bench) -> None:
    bench.hold(active(0))

    assert processor.process([(0, rows(1))], dict.fromkeys([TaskId(1, 0)]), False, 3) == {TaskId(1, 0)}

    assert bench.registry.tasks[TaskId(0, 0)].source_offset is None
