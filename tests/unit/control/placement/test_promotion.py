from __future__ import annotations

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.moves import promote
from airflow_provider.control.records.status import InstanceState
from airflow_provider.errors import AssignmentError
from tests.builders import active, assigned, instance, placed, standby

STATUSES = {
    status.instance: status
    for status in (
        instance("a", active(0), active(1)),
        instance("b", standby(0, lag_records=9), standby(1)),
        instance("c", standby(0, lag_records=2)),
    )
}
ASSIGNMENT = assigned("a b c", "a b")


def test_most_caught_up_standby_is_taken_and_the_former_active_stays_a_standby() -> None:
    assert placed(promote(ASSIGNMENT, STATUSES, ["a", "b", "c"], [TaskId(0, 0)])) == ["c a b", "a b"]


def test_certified_one_of_equal_standbys_is_taken() -> None:
    statuses = {
        status.instance: status
        for status in (
            instance("a", active(0)),
            instance("b", standby(0)),
            instance("c", standby(0, certified_position=10)),
        )
    }

    assert placed(promote(assigned("a b c"), statuses, ["a", "b", "c"], [TaskId(0, 0)])) == ["c a b"]


def test_standby_with_an_error_is_the_last_choice() -> None:
    statuses = {
        status.instance: status
        for status in (
            instance("a", active(0)),
            instance("b", standby(0, error="no room")),
            instance("c", standby(0, lag_records=500)),
        )
    }

    assert placed(promote(assigned("a b c"), statuses, ["a", "b", "c"], [TaskId(0, 0)])) == ["c a b"]


def test_named_standby_is_taken() -> None:
    assert placed(promote(ASSIGNMENT, STATUSES, ["a", "b", "c"], [TaskId(0, 0), TaskId(0, 1)], "b")) == ["b a c", "b a"]


def test_former_active_that_is_gone_is_dropped() -> None:
    ended = STATUSES | {"a": instance("a", state=InstanceState.ENDED)}

    assert placed(promote(ASSIGNMENT, ended, ["b", "c"], [TaskId(0, 0)])) == ["c b", "a b"]


def test_former_active_that_is_silent_just_now_stays_a_standby() -> None:
    assert placed(promote(ASSIGNMENT, STATUSES, ["b", "c"], [TaskId(0, 0)])) == ["c a b", "a b"]


def test_task_that_is_there_already_stays() -> None:
    assert placed(promote(ASSIGNMENT, STATUSES, ["a", "b", "c"], [TaskId(0, 0)], "a")) == placed(ASSIGNMENT)


def test_unhealthy_standby_is_refused() -> None:
    with pytest.raises(AssignmentError, match=r"Task 0_1 .* has no healthy standby on 'b'"):
        promote(ASSIGNMENT, STATUSES, ["a", "c"], [TaskId(0, 1)], "b")


def test_task_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AssignmentError, match="has the tasks 0_0, 0_1, found 0_2"):
        promote(ASSIGNMENT, STATUSES, ["a"], [TaskId(0, 2)])
