"""A recovery drill's choice and its judgement: pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider.control.status import Role
from airflow_provider.control.view import ControlView
from airflow_provider.errors import AssignmentError, InstanceError, StateError

__all__ = ["check_progress", "choose_victim", "source_offsets"]


def choose_victim(view: ControlView, healthy: Collection[str], instance: str | None = None) -> str:
    """The instance to make fail: the named one, or the one with the most active tasks.

    Raises:
        AssignmentError: nothing is assigned yet.
        InstanceError: no instance lives, or the named one does not.
    """
    if view.assignment is None:
        raise AssignmentError(f"Nothing of {view.application_id!r} is assigned yet: deploy it before a drill.")
    if not healthy or (instance is not None and instance not in healthy):
        raise InstanceError(
            f"Instance {instance or 'of any name'!r} of {view.application_id!r} does not live (living: "
            f"{', '.join(sorted(healthy)) or 'none'}): a drill needs one that does."
        )
    if instance is not None:
        return instance
    assignment = view.assignment
    return min(healthy, key=lambda name: (-len(assignment.active_on(name)), name))


def source_offsets(view: ControlView) -> dict[int, int]:
    """The next input offset of each task, as its assigned active told it; tasks that told none are left out."""
    offsets = {}
    for number, given in enumerate(view.assignment.tasks if view.assignment else ()):
        status = view.statuses.get(given.active) if given.active else None
        task = status.task(number) if status else None
        if task is not None and task.role is Role.ACTIVE and task.source_offset is not None:
            offsets[number] = task.source_offset
    return offsets


def check_progress(before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    """How far each task's source has moved on since.

    Raises:
        StateError: a task went back, or tells no offset any more: committed input would be processed twice.
    """
    for task, offset in sorted(before.items()):
        now = after.get(task)
        if now is None or now < offset:
            raise StateError(
                f"Task {task} was at source offset {offset} before the failure and is at {now} after it: committed "
                "input is lost to it. Stop the application, keep its stores and changelogs, and look at the "
                "instances' logs."
            )
    return {task: after[task] - offset for task, offset in before.items()}
