"""On which host each instance has its stores, as far as copies of a task have to be kept apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import TaskAssignment
from airflow_provider.control.records.status import InstanceStatus


def hosts_of(instances: Collection[str], statuses: Mapping[str, InstanceStatus]) -> dict[str, str]:
    """The host of each instance; one that reported none counts as alone on a host of its own.

    Args:
        statuses: the newest status of each instance.
    """
    known = {name: statuses[name].stores_host for name in instances if name in statuses}
    # No host's name holds a slash, so these are distinct from each other and from every real one.
    return {name: known.get(name) or f"unknown/{name}" for name in instances}


def tasks_on_one_host(
    tasks: Mapping[TaskId, TaskAssignment], statuses: Mapping[str, InstanceStatus]
) -> dict[TaskId, str]:
    """The tasks all of whose copies would be lost with one host, although there is more than one copy.

    Args:
        tasks: as assigned.
        statuses: the newest status of each instance.

    Returns:
        By task, the host.
    """
    found = {}
    for task_id, task in tasks.items():
        copies = [*([task.active] if task.active else []), *task.standbys]
        hosts = set(hosts_of(copies, statuses).values())
        if len(copies) > 1 and len(hosts) == 1:
            found[task_id] = hosts.pop()
    return found
