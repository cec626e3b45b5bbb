"""Making a standby the active one by choice: a pure function."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_provider.control.assignment import Assignment, TaskAssignment
from airflow_provider.control.status import InstanceStatus, TaskStatus
from airflow_provider.errors import AssignmentError

__all__ = ["promote"]


def promote(
    assignment: Assignment,
    statuses: Mapping[str, InstanceStatus],
    healthy: Collection[str],
    tasks: Sequence[int],
    to: str | None = None,
) -> tuple[TaskAssignment, ...]:
    """The tasks after the promotion; a former active that is healthy becomes the first standby.

    Args:
        assignment: the newest one.
        statuses: the newest status of each instance.
        healthy: instances that live.
        tasks: the numbers of the tasks to move.
        to: the standby to promote; None takes each task's most caught-up healthy one.

    Raises:
        AssignmentError: a task does not exist, or no healthy standby of it is there to promote.
    """
    after = list(assignment.tasks)
    for number in tasks:
        if not 0 <= number < len(after):
            raise AssignmentError(
                f"{assignment.application_id!r} has tasks 0 to {len(after) - 1}, found {number}: mend the number."
            )
        task = after[number]
        if to is not None and task.active == to:
            continue
        lags = {name: _rank(statuses[name].task(number)) for name in task.standbys if name in healthy}
        chosen = to if to is not None else min(lags, key=lambda n: (lags[n], n), default=None)
        if chosen is None or chosen not in lags:
            known = ", ".join(task.standbys) or "none"
            raise AssignmentError(
                f"Task {number} of {assignment.application_id!r} has no healthy standby"
                f"{f' on {to!r}' if to else ''} (standbys: {known}; healthy: {', '.join(sorted(healthy)) or 'none'}): "
                "assign it a standby first and wait until it is warm."
            )
        former = [task.active] if task.active in healthy and task.active else []
        after[number] = TaskAssignment(chosen, (*former, *(name for name in task.standbys if name != chosen)))
    return tuple(after)


def _rank(task: TaskStatus | None) -> tuple[bool, int, bool]:
    """Sorts by the lag, an unknown one last; of equal ones a certified one first."""
    lag = task.lag_records if task is not None else None
    return (lag is None, lag or 0, task is None or task.certified_position is None)
