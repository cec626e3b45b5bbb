"""What an assignment says of one instance."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.assignment import Assignment
from airflow_provider.control.status import Role
from airflow_provider.streaming.faults.store_fault import StoreFault
from airflow_provider.streaming.worker.plan import TaskPlan

__all__ = ["task_plans"]


def task_plans(
    assignment: Assignment,
    instance: str,
    replays: Mapping[TaskId, str],
    snapshots: Mapping[TaskId, str] | None = None,
    comparisons: Mapping[TaskId, str] | None = None,
    faults: Mapping[TaskId, StoreFault] | None = None,
) -> tuple[TaskPlan, ...]:
    """What an instance is to be for each of its tasks, the active ones first.

    Args:
        assignment: the newest.
        instance: its name.
        replays: by task, the id of the newest command that asked to restore its store afresh.
        snapshots: by task, the id of the newest command that asked for a snapshot of its standby's store.
        comparisons: the same of a comparison of its standby's store with its active's.
        faults: by task, what a drill asked last to befall its store.
    """
    befalls = faults or {}
    active = [
        TaskPlan(
            task=task,
            role=Role.ACTIVE,
            generation=assignment.tasks[task].active_since,
            replay=replays.get(task),
            fault=befalls.get(task),
            has_standbys=bool(assignment.tasks[task].standbys),
        )
        for task in assignment.active_on(instance)
    ]
    standbys = [
        TaskPlan(
            task=task,
            role=Role.STANDBY,
            generation=assignment.generation,
            replay=replays.get(task),
            snapshot=(snapshots or {}).get(task),
            certify=(comparisons or {}).get(task),
            fault=befalls.get(task),
        )
        for task in assignment.standby_on(instance)
    ]
    return (*active, *standbys)
