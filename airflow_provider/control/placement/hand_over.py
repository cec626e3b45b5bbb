"""Who gets the tasks of an instance that is to stop: a pure function, and the call that publishes its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher


def hand_over(view: ControlView, instance: str, timeouts: Timeouts) -> Assignment | None:
    """The next generation, without an instance: its tasks go to the other running ones, warm standbys first.

    It takes nothing from another instance, be that silent just now (`ControlView.perhaps_alive`).

    Args:
        timeouts: how long an instance may be silent.

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
    return view.assignment.next(after, f"{instance} is stopped")


def publish_hand_over(publisher: AssignmentPublisher, instance: str, timeouts: Timeouts) -> None:
    """Give an instance's tasks to the other running ones (`hand_over`).

    Args:
        publisher: has read the newest assignment.
        instance: which is to stop.
        timeouts: by which the others are found to live.

    Raises:
        FencedError: a newer publisher exists. Nothing was written.
    """
    following = hand_over(publisher.view, instance, timeouts)
    if following is not None:
        publisher.publish(following)
