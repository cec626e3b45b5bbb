from __future__ import annotations

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import RestorePhase, TaskState, TaskStatus
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.streaming.driver.slots.slot_report import QueryFailure, SlotReport, with_query_failures
from airflow_provider.streaming.driver.spark.spark_error import Cause
from tests.unit.streaming.driver.fakes import ACTIVE, STANDBY, plan, status_of


def test_error_comes_with_each_task_and_what_was_known_of_it() -> None:
    report = SlotReport({TaskId(0, 0): status_of(0, source_offset=7), TaskId(0, 1): status_of(1)}, 3.0)

    failed = report.failed([plan(0), plan(2, STANDBY, generation=5)], BrokerUnreachableError("no broker"))

    assert set(failed.statuses) == {TaskId(0, 0), TaskId(0, 2)}
    assert (failed.statuses[TaskId(0, 0)].state, failed.statuses[TaskId(0, 0)].source_offset) == (TaskState.RUNNING, 7)
    assert (failed.statuses[TaskId(0, 2)].role, failed.statuses[TaskId(0, 2)].generation) == (STANDBY, 5)
    assert {(s.error, s.error_kind) for s in failed.statuses.values()} == {("no broker", "BrokerUnreachableError")}
    assert failed.called_at == 3.0


def test_promotion_that_always_fails_is_a_failed_active_and_not_a_standby_that_is_well() -> None:
    report = SlotReport().after([status_of(0, TaskState.FOLLOWING, STANDBY)], 1.0)

    for_good = report.failed([plan(0, generation=6)], KeyError("what it meets")).statuses[TaskId(0, 0)]
    for_now = report.failed([plan(0, generation=6)], BrokerUnreachableError("no broker")).statuses[TaskId(0, 0)]

    assert (for_good.role, for_good.state, for_good.generation) == (ACTIVE, TaskState.FAILED, 6)
    assert (for_now.role, for_now.state, for_now.generation) == (ACTIVE, TaskState.OWNING, 6)


FOLLOWING, CHANGELOG = TaskState.FOLLOWING, RestorePhase.CHANGELOG


@pytest.mark.parametrize(
    ("before", "after", "calm"),
    [
        pytest.param(status_of(0), status_of(0), 1, id="an-active-without-input"),
        pytest.param(status_of(0, source_offset=7), status_of(0, source_offset=8), 0, id="input-came"),
        pytest.param(
            status_of(0, FOLLOWING, STANDBY, position=5, lag_records=0),
            status_of(0, FOLLOWING, STANDBY, position=5, lag_records=0),
            1,
            id="a-standby-at-the-end",
        ),
        pytest.param(
            status_of(0, FOLLOWING, STANDBY, position=5, lag_records=0),
            status_of(0, FOLLOWING, STANDBY, position=6, lag_records=0),
            0,
            id="a-standby-that-applied-something",
        ),
        pytest.param(
            status_of(0, FOLLOWING, STANDBY, lag_records=3),
            status_of(0, FOLLOWING, STANDBY, lag_records=3),
            0,
            id="a-standby-behind",
        ),
        pytest.param(
            status_of(0, FOLLOWING, STANDBY, lag_records=0, restore_phase=CHANGELOG),
            status_of(0, FOLLOWING, STANDBY, lag_records=0, restore_phase=CHANGELOG),
            0,
            id="a-standby-that-is-restored",
        ),
        pytest.param(status_of(0, TaskState.OWNING), status_of(0, TaskState.OWNING), 0, id="on-its-way"),
        pytest.param(status_of(0, TaskState.CLOSED), status_of(0, TaskState.CLOSED), 0, id="fenced"),
        pytest.param(status_of(0), status_of(0, generation=2), 0, id="a-newer-generation"),
        pytest.param(
            status_of(0, error="no broker", error_kind="BrokerUnreachableError"),
            status_of(0, error="no broker", error_kind="BrokerUnreachableError"),
            0,
            id="an-error",
        ),
        pytest.param(status_of(0), status_of(1), 0, id="another-task"),
    ],
)
def test_call_that_finds_nothing_new_is_counted(before: TaskStatus, after: TaskStatus, calm: int) -> None:
    report = SlotReport().after([before], 1.0).after([after], 2.0)

    assert (report.calm, report.called_at, set(report.statuses)) == (calm, 2.0, {after.task})


def failure(kind: str = "StreamingQueryException", generation: int = 1) -> QueryFailure:
    return QueryFailure(cause=Cause(kind, "Cannot fetch"), generation=generation)


def test_query_that_ended_is_an_error_of_its_active_tasks_alone() -> None:
    statuses = [
        status_of(0),
        status_of(1),
        status_of(2, TaskState.FOLLOWING, STANDBY),
        status_of(3, TaskState.FAILED, error="worse", error_kind="StateError"),
        status_of(4, generation=2),
    ]

    found = with_query_failures(statuses, {TaskId(0, n): failure() for n in (0, 2, 3, 4)}, {TaskId(0, 1): 5})

    assert [status.error for status in found] == ["its query ended: Cannot fetch", None, None, "worse", None]
    assert (found[0].error_kind, found[0].state) == ("StreamingQueryException", TaskState.RUNNING)
    assert [status.lost_records for status in found] == [0, 5, 0, 0, 0]


def test_task_whose_queries_are_given_up_has_failed() -> None:
    (found,) = with_query_failures([status_of(0)], {TaskId(0, 0): failure("AnalysisException")}, {})

    assert (found.state, found.error_kind) == (TaskState.FAILED, "AnalysisException")


def test_call_that_no_try_gets_past_fails_the_active_tasks() -> None:
    report = SlotReport({TaskId(0, 0): status_of(0)})

    failed = report.failed([plan(0), plan(1, STANDBY)], TypeError("of our own"))

    assert [status.state for status in failed.statuses.values()] == [TaskState.FAILED, TaskState.FOLLOWING]
