from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from airflow_provider.common.in_thread import in_thread
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import RestorePhase, RestoreStatus, Role, TaskState, TaskStatus
from airflow_provider.streaming.driver.slots import slot_calls
from airflow_provider.streaming.driver.slots.slot_calls import RestoreLog, SlotCalls
from airflow_provider.streaming.driver.slots.slot_decisions import Brought, SlotGoal
from airflow_provider.streaming.driver.spark.spark_session import ARROW_BATCH_BYTES, MAX_BYTES_PER_BATCH
from airflow_provider.streaming.worker.tasks.plan import SlotPlan
from tests.unit.streaming.driver.fakes import STANDBY, FakeRows, FakeSpark, plan, settings_in, status_of
from tests.unit.streaming.driver.fakes import compiled as compiled_job
from tests.waiting import wait_until

RESTORING = TaskStatus(
    task=TaskId(0, 3),
    role=Role.STANDBY,
    state=TaskState.FOLLOWING,
    lag_records=5,
    restore=RestoreStatus(phase=RestorePhase.CHANGELOG, records=15, bytes=1_500, took_s=2.0),
)
DONE = dataclasses.replace(
    RESTORING, lag_records=0, restore=dataclasses.replace(RESTORING.restore, records=20, phase=None)
)
NO_BOUND = 2**31 - 1


def test_restore_is_logged_once_in_a_while_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    restores = RestoreLog()
    with caplog.at_level(logging.INFO):
        for status in (RESTORING, RESTORING, DONE, DONE):
            restores.update([status])

    assert caplog.messages == [
        "task 0_3 restores, changelog: 15 of 20 records (75 %)",
        "task 0_3 is restored: 20 records, 1,500 bytes in 2.0 s",
    ]


def test_copy_that_never_restored_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        RestoreLog().update([DONE])

    assert not caplog.messages


class Goal:
    """The newest goal, which a test changes."""

    def __init__(self, goal: SlotGoal) -> None:
        self.goal = goal

    def __call__(self) -> SlotGoal:
        return self.goal


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[SlotPlan]:
    """Every plan that is sent to the worker."""
    sent: list[SlotPlan] = []

    def keep(**fields: Any) -> SlotPlan:
        sent.append(SlotPlan(**fields))
        return sent[-1]

    monkeypatch.setattr(slot_calls, "SlotPlan", keep)
    return sent


def calls_of(
    spark: FakeSpark, goal: Goal, folder: Path, on_report: Callable[[tuple[TaskStatus, ...]], None] = lambda _: None
) -> SlotCalls:
    settings = settings_in(folder, call_timeout_s=0.05)
    return SlotCalls(cast(SparkSession, spark), compiled_job().specs, settings, 0, goal, on_report)


def never() -> bool:
    return False


def brought(*partitions: int) -> dict[TaskId, Brought]:
    return {TaskId(0, partition): Brought(1, None) for partition in partitions}


def batch(calls: SlotCalls, spark: FakeSpark, tasks: set[int], abandoned: Callable[[], bool] = never) -> frozenset[int]:
    rows: Any = FakeRows(spark.answer)
    left = calls.batch(rows, brought(*tasks), abandoned)
    return frozenset(task.partition for task in left)


def test_call_that_came_back_is_under_way_no_more(tmp_path: Path) -> None:
    spark = FakeSpark(status_of(0))
    calls = calls_of(spark, Goal(SlotGoal((plan(0),))), tmp_path)

    calls.round()
    assert calls.called_for_s == 0.0

    spark.error = RuntimeError("the worker died")
    with pytest.raises(RuntimeError, match="the worker died"):
        calls.round()
    assert calls.called_for_s == 0.0


def test_report_is_kept_and_handed_on(tmp_path: Path) -> None:
    reported: list[tuple[TaskStatus, ...]] = []
    calls = calls_of(FakeSpark(status_of(0), status_of(2)), Goal(SlotGoal((plan(0),))), tmp_path, reported.append)

    calls.round()

    assert reported == [(status_of(0), status_of(2))]
    assert calls.report.statuses == {TaskId(0, 0): status_of(0), TaskId(0, 2): status_of(2)}
    assert calls.report.called_at > 0


def test_error_is_reported_with_the_tasks_of_the_goal(tmp_path: Path) -> None:
    reported: list[tuple[TaskStatus, ...]] = []
    calls = calls_of(FakeSpark(), Goal(SlotGoal((plan(0), plan(1)))), tmp_path, reported.append)

    calls.report_error(OSError("no room"))

    assert [(status.task, status.error, status.error_kind) for status in reported[-1]] == [
        (TaskId(0, 0), "no room", "OSError"),
        (TaskId(0, 1), "no room", "OSError"),
    ]
    assert calls.report.called_at == 0.0


def test_worker_is_told_which_tasks_have_no_input_unless_that_is_because_nothing_is_processed(
    plans: list[SlotPlan], tmp_path: Path
) -> None:
    goal, idle = Goal(SlotGoal((plan(0),))), frozenset([TaskId(0, 0)])
    spark: Any = FakeSpark(status_of(0))
    calls = SlotCalls(spark, compiled_job().specs, settings_in(tmp_path), 0, goal, lambda _: None, idle=lambda: idle)

    calls.round()
    assert plans[-1].idle == idle

    goal.goal = SlotGoal((plan(0),), paused=True)
    calls.round()
    assert plans[-1].idle == frozenset()


def test_batch_brings_rows_of_the_tasks_that_are_still_active_here(plans: list[SlotPlan], tmp_path: Path) -> None:
    spark = FakeSpark(status_of(0), status_of(1, TaskState.RESTORING))
    calls = calls_of(spark, Goal(SlotGoal((plan(0), plan(1), plan(2, STANDBY)))), tmp_path)

    left = batch(calls, spark, {0, 1, 2})

    assert list(plans[-1].rows_of) == [TaskId(0, 0), TaskId(0, 1)]
    assert left == {0}


def test_worker_learns_from_where_the_rows_go_on(plans: list[SlotPlan], tmp_path: Path) -> None:
    spark = FakeSpark(status_of(0, source_offset=7))
    calls = calls_of(spark, Goal(SlotGoal((plan(0),))), tmp_path)
    rows: Any = FakeRows(spark.answer)

    left = calls.batch(rows, {TaskId(0, 0): Brought(1, 4)}, never)
    assert (plans[-1].rows_of, left) == ({TaskId(0, 0): 4}, {TaskId(0, 0): Brought(1, 7)})

    assert calls.batch(rows, {TaskId(0, 0): Brought(2, 4)}, never) == {}, "another generation has another query"


def test_paused_batch_waits_while_rounds_go_on(plans: list[SlotPlan], tmp_path: Path) -> None:
    spark = FakeSpark(status_of(0))
    goal = Goal(SlotGoal((plan(0),), paused=True))
    calls = calls_of(spark, goal, tmp_path)

    waiting = in_thread(lambda: batch(calls, spark, {0}), "batch")
    calls.round()
    calls.round()
    assert [sent.rows_of for sent in plans] == [{}, {}]

    goal.goal = SlotGoal((plan(0),))
    assert waiting.result(10) == {0}
    assert list(plans[-1].rows_of) == [TaskId(0, 0)]


def test_batch_of_a_query_that_is_to_end_is_left_to_the_next_one(plans: list[SlotPlan], tmp_path: Path) -> None:
    spark = FakeSpark(status_of(0))
    calls = calls_of(spark, Goal(SlotGoal((plan(0),), paused=True)), tmp_path)

    assert batch(calls, spark, {0}, abandoned=lambda: True) == {0}
    assert plans == []


def test_one_call_at_a_time_and_none_with_an_older_goal_than_the_one_before(
    plans: list[SlotPlan], tmp_path: Path
) -> None:
    spark = FakeSpark(status_of(0))
    goal = Goal(SlotGoal((plan(0),)))
    calls = calls_of(spark, goal, tmp_path)
    spark.let.clear()
    round_ = in_thread(calls.round, "round")
    wait_until(lambda: spark.calls == 1, 10, "the round to be under way")
    after = in_thread(lambda: batch(calls, spark, {0}), "batch")

    goal.goal = SlotGoal((plan(0, generation=2),))
    assert (spark.calls, len(plans)) == (1, 1)
    spark.let.set()
    round_.result(10)
    after.result(10)

    assert [sent.tasks[0].generation for sent in plans] == [1, 2]


def test_call_that_took_too_long_fails_its_batch_the_next_time(plans: list[SlotPlan], tmp_path: Path) -> None:
    spark = FakeSpark(status_of(0))
    calls = calls_of(spark, Goal(SlotGoal((plan(0),))), tmp_path)
    over = threading.Event()

    def end_late() -> tuple[TaskStatus, ...]:
        wait_until(lambda: calls.called_for_s > 0.05, 10, "the call to take longer than it may")
        over.set()
        raise RuntimeError("Spark ended the worker")

    late: Any = FakeRows(end_late)
    with pytest.raises(RuntimeError, match="ended the worker"):
        calls.batch(late, brought(0), never)
    assert over.is_set()

    batch(calls, spark, {0})
    batch(calls, spark, {0})

    assert [sent.max_crashes for sent in plans] == [3, 1, 3]


def test_pieces_are_bounded_by_bytes_until_rows_are_known_to_be_small(tmp_path: Path) -> None:
    spark = FakeSpark(status_of(0))
    calls = calls_of(spark, Goal(SlotGoal((plan(0),))), tmp_path)
    bounds = []

    for bytes_per_row in (100, 100, 900_000, 100, 100):
        rows: Any = FakeRows(spark.answer, rows=10, bytes_=10 * bytes_per_row)
        calls.batch(rows, brought(0), never)
        bounds.append(int(rows.settings[MAX_BYTES_PER_BATCH]))

    # Where they once were large they may be so again.
    assert bounds == [ARROW_BATCH_BYTES, NO_BOUND, NO_BOUND, ARROW_BATCH_BYTES, ARROW_BATCH_BYTES]


def test_bound_that_the_user_set_is_left_alone(tmp_path: Path) -> None:
    spark = FakeSpark(status_of(0))
    spark.settings[MAX_BYTES_PER_BATCH] = "1000"
    calls = calls_of(spark, Goal(SlotGoal((plan(0),))), tmp_path)
    rows: Any = FakeRows(spark.answer, rows=10, bytes_=1000)
    rows.settings.clear()

    calls.batch(rows, brought(0), never)

    assert rows.settings == {}


def test_plan_has_the_number_of_the_goal_which_grows_when_the_tasks_are_to_be_something_else(
    plans: list[SlotPlan], tmp_path: Path
) -> None:
    spark = FakeSpark(status_of(0))
    goal = Goal(SlotGoal().followed_by((plan(0),), paused=False))
    calls = calls_of(spark, goal, tmp_path)

    calls.round()
    goal.goal = goal.goal.followed_by((plan(0),), paused=True)
    calls.round()
    goal.goal = goal.goal.followed_by((plan(0, generation=2),), paused=False)
    calls.round()
    goal.goal = goal.goal.followed_by((), paused=False, stopping=True)
    calls.round()

    assert [sent.number for sent in plans] == [1, 1, 2, 3]
