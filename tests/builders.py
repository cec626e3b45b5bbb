"""Short ways to write down an application's control plane."""

from __future__ import annotations

from typing import Any

from airflow_provider.control.assignment import Assignment, TaskAssignment
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import InstanceState, InstanceStatus, Role, TaskState, TaskStatus
from airflow_provider.control.view import ControlView

APPLICATION = "app"


def assigned(*tasks: str, generation: int = 1, application_id: str = APPLICATION) -> Assignment:
    """``assigned("a b", "b a", "- c")``: by task its active (``-`` for none), then its standbys."""
    given = []
    for words in map(str.split, tasks):
        active, *standbys = words
        given.append(TaskAssignment(None if active == "-" else active, tuple(standbys), generation))
    return Assignment(application_id, generation, tuple(given), "test")


def placed(assignment: Assignment | tuple[TaskAssignment, ...]) -> list[str]:
    """The inverse of `assigned`."""
    tasks = assignment.tasks if isinstance(assignment, Assignment) else assignment
    return [" ".join([task.active or "-", *task.standbys]) for task in tasks]


def active(task: int, state: TaskState = TaskState.RUNNING, generation: int = 1, **more: Any) -> TaskStatus:
    return TaskStatus(task, Role.ACTIVE, state, generation, **more)


def standby(task: int, lag_records: int | None = 0, lag_s: float | None = 0.0, **more: Any) -> TaskStatus:
    more = {"position": 10, **more}
    return TaskStatus(task, Role.STANDBY, TaskState.FOLLOWING, lag_records=lag_records, lag_s=lag_s, **more)


def instance(
    name: str, *tasks: TaskStatus, state: InstanceState = InstanceState.RUNNING, incarnation: int = 1, **more: Any
) -> InstanceStatus:
    return InstanceStatus(APPLICATION, name, incarnation, state, tasks=tasks, **more)


def view_of(assignment: Assignment | None, *statuses: InstanceStatus) -> ControlView:
    """All of them were heard of just now."""
    view = ControlView(APPLICATION, assignment, newest_ms=1_000)
    for status in statuses:
        view.statuses[status.instance] = status
        view.heard_at_ms[status.instance] = 1_000
    return view


def seen(assignment: Assignment | None, *statuses: InstanceStatus, **more: Any) -> Observation:
    return Observation(view_of(assignment, *statuses), **more)
