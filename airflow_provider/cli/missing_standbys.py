"""Which tasks have fewer standbys than they are to have, although there are instances for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_provider.control.command import RESTART
from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.control.view import ControlView

__all__ = ["missing_standbys"]


def missing_standbys(view: ControlView, num_standby_replicas: int, silent: Collection[str] = ()) -> Iterator[str]:
    """A line for each task that is not assigned its standbys.

    As the assignor, it wants no more than there are instances beside the active. An instance counts until it was
    stopped on purpose, also while it starts, is restarted for an upgrade, or after it ended by itself: a single one has
    no standbys, and lacks none.

    Args:
        view: the newest.
        num_standby_replicas: wanted standbys per task.
        silent: the instances that reported no end and send no heartbeat.
    """
    if view.assignment is None:
        return
    meant = {name for name, status in view.statuses.items() if _is_meant_to_run(status)}
    instances = sorted(meant.union(view.assignment.instances))
    wanted = min(num_standby_replicas, len(instances) - 1)
    away = [name for name in instances if name in silent or name not in view.statuses or not _runs(view.statuses[name])]
    if away:
        why = f"{', '.join(away)} not running: an upgrade or a start may be under way; if none is, run the deploy DAG"
    else:
        why = f"{', '.join(instances)} run: run the deploy DAG, or assign"
    for task_id, task in view.assignment.tasks.items():
        if len(task.standbys) < wanted:
            has = "no standby is" if not task.standbys else f"{len(task.standbys)} of {wanted} standbys are"
            yield f"task {task_id}: {has} assigned ({why})"


def _is_meant_to_run(status: InstanceStatus) -> bool:
    if status.state is InstanceState.STOPPED:
        return any(command.startswith(RESTART) for command in status.last_commands[-1:])
    return True


def _runs(status: InstanceStatus) -> bool:
    return status.state is InstanceState.RUNNING
