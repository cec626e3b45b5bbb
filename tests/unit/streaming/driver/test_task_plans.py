from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.assignment import Assignment, TaskAssignment
from airflow_provider.streaming.driver.task_plans import task_plans
from airflow_provider.streaming.worker.plan import TaskPlan
from tests.builders import assigned
from tests.unit.streaming.driver.fakes import ACTIVE, STANDBY


def test_instance_is_active_since_it_got_the_task_and_standby_in_this_generation() -> None:
    assignment = assigned("i1 i2", "i2 i1", "i2", "i1", generation=4)

    assert task_plans(assignment, "i1", {TaskId(0, 1): "c7"}) == (
        TaskPlan(task=TaskId(0, 0), role=ACTIVE, generation=4, has_standbys=True),
        TaskPlan(task=TaskId(0, 3), role=ACTIVE, generation=4, has_standbys=False),
        TaskPlan(task=TaskId(0, 1), role=STANDBY, generation=4, replay="c7"),
    )


def test_snapshot_is_asked_of_a_standby_alone() -> None:
    plans = task_plans(assigned("i1 i2", "i2 i1"), "i1", {}, {TaskId(0, 0): "c8", TaskId(0, 1): "c9"})

    assert [plan.snapshot for plan in plans] == [None, "c9"]


def test_comparison_is_asked_of_a_standby_alone() -> None:
    plans = task_plans(assigned("i1 i2", "i2 i1"), "i1", {}, {}, {TaskId(0, 0): "c8", TaskId(0, 1): "c9"})

    assert [plan.certify for plan in plans] == [None, "c9"]


def test_instance_that_is_not_named_has_no_tasks() -> None:
    assert task_plans(assigned("i1 i2"), "i3", {}) == ()


def test_plans_name_the_tasks_of_every_stage() -> None:
    tasks = {TaskId(1, 0): TaskAssignment("a", ("b",), 2), TaskId(0, 0): TaskAssignment("b", ("a",), 1)}
    assignment = Assignment(application_id="app", generation=3, tasks=tasks)

    plans = task_plans(assignment, "a", {})

    assert [(str(plan.task), plan.role, plan.generation) for plan in plans] == [
        ("1_0", ACTIVE, 2),
        ("0_0", STANDBY, 3),
    ]
