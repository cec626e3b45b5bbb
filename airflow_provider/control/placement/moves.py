"""Moves by choice: a standby that is promoted, and the tasks of an instance that is to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.placement.ranking import rank_copies
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts, highest_generation
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher


def promote(
    assignment: Assignment,
    statuses: Mapping[str, InstanceStatus],
    healthy: Collection[str],
    tasks: Sequence[TaskId],
    to: str | None = None,
) -> dict[TaskId, TaskAssignment]:
    """The tasks after the promotion; a former active becomes the first standby, unless it reported its end.

    Args:
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
        status = statuses.get(task.active) if task.active else None
        former = [task.active] if task.active and (status is None or status.state.alive) else []
        load[chosen] += 1
        after[task_id] = TaskAssignment(chosen, (*former, *(name for name in task.standbys if name != chosen)))
    return after


def hand_over(view: ControlView, instance: str, timeouts: Timeouts) -> Assignment | None:
    """The next generation, without an instance: its tasks go to the other running ones, warm standbys first.

    It takes nothing from another instance, be that silent just now (`ControlView.perhaps_alive`).

    Returns:
        None where the instance has no task, or no other runs: then its tasks wait for it.
    """
    others = [
        name
        for name in view.healthy(timeouts)
        if name != instance and view.statuses[name].state is InstanceState.RUNNING
    ]
    if view.assignment is None or instance not in view.assignment.instances or not others:
        return None
    replicas = max(len(task.standbys) for task in view.assignment.tasks.values())
    keep = [name for name in view.perhaps_alive if name != instance]
    after = assign(view.assignment, others, replicas, view.statuses, keep=keep)
    return view.assignment.next(after, f"{instance} is stopped", highest_generation(view.statuses.values()))


def publish_hand_over(publisher: AssignmentPublisher, instance: str, timeouts: Timeouts) -> None:
    """Give an instance's tasks to the other running ones (`hand_over`).

    Raises:
        FencedError: a newer publisher exists. Nothing was written.
    """
    following = hand_over(publisher.view, instance, timeouts)
    if following is not None:
        publisher.publish(following)
