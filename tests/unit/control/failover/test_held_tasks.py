from __future__ import annotations

from typing import Any

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.open_problems import held_tasks
from airflow_provider.control.records.status import InstanceState, TaskState
from tests.builders import active, assigned, instance, standby, view_of

BROKEN: dict[str, Any] = {"error": "no JSON", "error_kind": "DecodeError"}
ASSIGNMENT = assigned("a b", "b a", "a", "-")


def test_task_that_failed_where_it_is_active_is_held() -> None:
    view = view_of(
        ASSIGNMENT,
        instance("a", active(0, TaskState.FAILED, **BROKEN), standby(1), active(2)),
        instance("b", active(1), standby(0, **BROKEN)),
    )

    (held,) = held_tasks(view)

    assert (held.task, held.instance) == (TaskId(0, 0), "a")
    assert "no JSON" in held.error


def test_task_of_an_instance_that_is_gone_is_a_failovers_and_not_held() -> None:
    ended = instance("a", active(0, TaskState.FAILED, **BROKEN), state=InstanceState.ENDED)

    assert held_tasks(view_of(ASSIGNMENT, ended)) == ()


def test_nothing_is_held_before_the_first_assignment() -> None:
    assert held_tasks(view_of(None, instance("a", active(0, TaskState.FAILED)))) == ()


def test_task_that_was_given_to_another_is_held_by_none() -> None:
    moved = view_of(assigned("b"), instance("a", active(0, TaskState.FAILED, **BROKEN)), instance("b"))

    assert held_tasks(moved) == ()
