"""Making a standby the active one by choice: a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.ranking import rank_copies
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.errors import AssignmentError


def promote(
    assignment: Assignment,
    statuses: Mapping[str, InstanceStatus],
    healthy: Collection[str],
    tasks: Sequence[TaskId],
    to: str | None = None,
) -> dict[TaskId, TaskAssignment]:
    """The tasks after the promotion; a former active becomes the first standby, unless it reported its end.

    Args:
        assignment: the newest one.
        statuses: the newest status of each instance.
        healthy: instances that live.
        tasks: the tasks to move.
        to: the standby to promote; None takes each task's best healthy one (see `rank_copies`).

    Raises:
        AssignmentError: a task does not exist, or no healthy standby of it is there to promote.
    """
    after = dict(assignment.tasks)
    load = Counter(task.active for task in after.values() if task.active)
    for task_id in tasks:
        if task_id not in after:
            raise AssignmentError(
                f"{assignment.application_id!r} has the tasks {', '.join(map(str, after)) or 'none'}, found {task_id}: "
                "correct the task."
            )
        task = after[task_id]
        if to is not None and task.active == to:
            continue
        there = [name for name in task.standbys if name in healthy]
        chosen = next(iter(rank_copies(task_id, there, statuses, load)), None) if to is None else to
        if chosen is None or chosen not in there:
            known = ", ".join(task.standbys) or "none"
            raise AssignmentError(
                f"Task {task_id} of {assignment.application_id!r} has no healthy standby"
                f"{f' on {to!r}' if to else ''} (standbys: {known}; healthy: {', '.join(sorted(healthy)) or 'none'}): "
                "assign it a standby first and wait until it is warm."
            )
        former = [task.active] if task.active and _may_live(statuses.get(task.active)) else []
        load[chosen] += 1
        after[task_id] = TaskAssignment(chosen, (*former, *(name for name in task.standbys if name != chosen)))
    return after


def _may_live(status: InstanceStatus | None) -> bool:
    return status is None or status.state.alive
