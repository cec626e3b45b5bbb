"""The tasks that have failed for good where they are: no failover moves them, because they would fail anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.control.topics.view import ControlView

__all__ = ["HeldTask", "held_tasks"]


@dataclass(frozen=True, kw_only=True)
class HeldTask:
    """A task that stands still until a person has done something.

    Args:
        task: which one.
        instance: the active one.
        error: why it failed.
    """

    task: TaskId
    instance: str
    error: str


def held_tasks(view: ControlView) -> tuple[HeldTask, ...]:
    """Those whose active copy says that it failed, on an instance that lives, in their order.

    Args:
        view: what the control topics hold.
    """
    found = []
    for task_id, given in view.assignment.tasks.items() if view.assignment else ():
        status = view.statuses.get(given.active) if given.active else None
        copy = status.task(task_id) if status is not None and status.state.alive else None
        if copy is not None and (copy.role, copy.state) == (Role.ACTIVE, TaskState.FAILED):
            found.append(HeldTask(task=task_id, instance=given.active or "", error=copy.error or "it does not say why"))
    return tuple(found)
