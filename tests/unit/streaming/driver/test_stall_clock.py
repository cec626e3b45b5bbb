from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.control.status import RestorePhase, TaskState, TaskStatus
from airflow_provider.streaming.driver.stall_clock import StallClock
from tests.builders import active


@pytest.fixture
def clock() -> StallClock:
    """That saw a task of generation 1 at offset 40 at the time 0."""
    clock = StallClock()
    assert clock.stalled_s(task(), True, 0.0) == 0.0
    return clock


def task(**more: Any) -> TaskStatus:
    return active(0, **{"source_offset": 40, **more})


def test_task_that_commits_nothing_although_it_has_work_stands_still(clock: StallClock) -> None:
    assert clock.stalled_s(task(), True, 30.0) == 30.0
    assert clock.stalled_s(task(), True, 70.0) == 70.0


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"source_offset": 41}, id="a-commit"),
        pytest.param({"generation": 2}, id="got-it-again"),
        pytest.param({"state": TaskState.RESTORING, "restored_records": 5}, id="a-restore-goes-on"),
        pytest.param({"state": TaskState.RESTORING, "restore_phase": RestorePhase.SNAPSHOT}, id="snapshot"),
    ],
)
def test_what_gets_on_begins_again(clock: StallClock, more: dict[str, Any]) -> None:
    assert clock.stalled_s(task(**more), True, 30.0) == 0.0


def test_task_without_work_does_not_stand_still(clock: StallClock) -> None:
    assert clock.stalled_s(task(), False, 500.0) == 0.0
    assert clock.stalled_s(task(), True, 510.0) == 10.0


def test_task_that_is_owned_and_restored_again_and_again_stands_still(clock: StallClock) -> None:
    clock.stalled_s(task(state=TaskState.RESTORING, restored_records=9), True, 10.0)
    for again in range(1, 6):
        clock.stalled_s(task(state=TaskState.OWNING), True, 10.0 + 20 * again)
        clock.stalled_s(task(state=TaskState.RESTORING, restored_records=9), True, 11.0 + 20 * again)

    assert clock.stalled_s(task(), True, 140.0) == 130.0


def test_call_that_may_still_take_its_time_does_not_count(clock: StallClock) -> None:
    assert clock.stalled_s(task(), True, 400.0, until=3.0) == 3.0
    assert clock.stalled_s(task(), True, 401.0) == 401.0


def test_task_that_left_and_comes_back_begins_again(clock: StallClock) -> None:
    clock.forget(task().task)

    assert clock.stalled_s(task(), True, 500.0) == 0.0


def test_task_whose_query_cannot_run_yet_does_not_stand_still(clock: StallClock) -> None:
    """On a host with more to do than it can, Spark takes longer to get ready than a task may stand still."""
    assert clock.stalled_s(task(), True, 300.0, ready_within_s=600.0) == 0.0
    assert clock.stalled_s(task(), True, 310.0, ready_at=305.0, ready_within_s=600.0) == 5.0
    assert clock.stalled_s(task(), True, 425.0, ready_at=305.0, ready_within_s=600.0) == 120.0


def test_query_that_never_gets_ready_is_found(clock: StallClock) -> None:
    assert clock.stalled_s(task(), True, 600.0, ready_within_s=600.0) == 0.0
    assert clock.stalled_s(task(), True, 601.0, ready_within_s=600.0) == 601.0
