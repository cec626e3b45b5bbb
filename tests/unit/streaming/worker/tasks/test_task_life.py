from __future__ import annotations

import itertools

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import Role, TaskState
from airflow_provider.streaming.worker.tasks.task import TaskLife

OWNING, RESTORING, RUNNING = TaskState.OWNING, TaskState.RESTORING, TaskState.RUNNING
FOLLOWING, FAILED, CLOSED = TaskState.FOLLOWING, TaskState.FAILED, TaskState.CLOSED

ALLOWED = {
    (OWNING, OWNING): "a newer generation names it before it has fenced",
    (OWNING, RESTORING): "it has fenced every earlier owner",
    (OWNING, FOLLOWING): "demoted",
    (OWNING, FAILED): "failed",
    (OWNING, CLOSED): "closed",
    (RESTORING, RUNNING): "restored",
    (RESTORING, OWNING): "its producer was dropped",
    (RESTORING, FOLLOWING): "demoted",
    (RESTORING, FAILED): "failed",
    (RESTORING, CLOSED): "a later owner has committed",
    (RUNNING, OWNING): "its producer was dropped",
    (RUNNING, FOLLOWING): "demoted",
    (RUNNING, FAILED): "failed",
    (RUNNING, CLOSED): "fenced",
    (FOLLOWING, OWNING): "promoted",
    (FOLLOWING, FAILED): "failed",
    (FOLLOWING, CLOSED): "closed",
    (FAILED, OWNING): "a newer generation names it",
    (FAILED, FOLLOWING): "demoted",
    (FAILED, FAILED): "failed once more",
    (FAILED, CLOSED): "closed",
    (CLOSED, OWNING): "fenced, and no newer assignment came",
    (CLOSED, FOLLOWING): "demoted",
    (CLOSED, CLOSED): "closed while it waits",
}
REFUSED = sorted(set(itertools.product(TaskState, TaskState)) - set(ALLOWED), key=str)
# By which way each state is reached from the beginning of a life.
WAYS = {
    OWNING: (Role.ACTIVE, ()),
    RESTORING: (Role.ACTIVE, (RESTORING,)),
    RUNNING: (Role.ACTIVE, (RESTORING, RUNNING)),
    FOLLOWING: (Role.STANDBY, ()),
    FAILED: (Role.ACTIVE, (FAILED,)),
    CLOSED: (Role.ACTIVE, (CLOSED,)),
}


def life_in(state: TaskState) -> TaskLife:
    role, steps = WAYS[state]
    life = TaskLife(TaskId(0, 3), role)
    for step in steps:
        life.transition(step)
    assert life.state is state
    return life


def name_of(step: tuple[TaskState, TaskState]) -> str:
    return f"{step[0].name}-{step[1].name}"


@pytest.mark.parametrize("step", ALLOWED, ids=name_of)
def test_step_is_taken(step: tuple[TaskState, TaskState]) -> None:
    life = life_in(step[0])

    life.transition(step[1])

    assert life.state is step[1]


@pytest.mark.parametrize("step", REFUSED, ids=name_of)
def test_step_is_refused_and_the_state_stays(step: tuple[TaskState, TaskState]) -> None:
    life = life_in(step[0])

    with pytest.raises(
        RuntimeError, match=f"Task 0_3 is {step[0].name} and cannot become {step[1].name}, only .*Report"
    ):
        life.transition(step[1])

    assert life.state is step[0]


def test_every_state_lists_what_is_allowed_and_nothing_else() -> None:
    assert {(state, to) for state in TaskState for to in state.successors} == set(ALLOWED)


def test_error_belongs_to_the_state_that_it_led_to() -> None:
    life, error = life_in(RUNNING), ValueError("poison")

    life.transition(FAILED, error)
    assert life.error is error

    life.transition(OWNING)
    assert life.error is None


def test_names_on_the_wire() -> None:
    assert [state.value for state in TaskState] == ["owning", "restoring", "running", "following", "failed", "closed"]
