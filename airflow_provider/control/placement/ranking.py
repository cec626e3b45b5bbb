"""Which copy of a task is the best to go on from: decided here alone, for failovers, promotions and assignments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import InstanceStatus, Role, TaskStatus

_START_S: Final = 30.0
"""No instance whose process was just started is up, with Spark and its query, before that: a cold copy that is warm
sooner is quicker."""


def standby_copy(status: InstanceStatus | None, task_id: TaskId) -> TaskStatus | None:
    """An instance's standby copy of a task, once its store is open; None otherwise."""
    found = status.task(task_id) if status is not None else None
    return found if found is not None and found.role is Role.STANDBY and found.position is not None else None


def has_quick_copy(task_id: TaskId, instances: Collection[str], statuses: Mapping[str, InstanceStatus]) -> bool:
    """Whether a standby copy can go on sooner than the task's own instance, which is just being started again."""
    copies = (standby_copy(statuses.get(name), task_id) for name in instances)
    return any(copy is not None and (copy.ready or _is_warm_soon(copy)) for copy in copies)


def _is_warm_soon(copy: TaskStatus) -> bool:
    left_s = copy.restore.remaining_s
    return copy.error is None and left_s is not None and left_s <= _START_S


def rank_copies(
    task_id: TaskId, instances: Collection[str], statuses: Mapping[str, InstanceStatus], load: Mapping[str, int]
) -> list[str]:
    """The instances, best first.

    A copy before none; an instance that processes before one that was paused; a warm copy before a cold one; one
    without an error, such as a full disk, before one with; then the smaller lag, the smaller load, a certified one
    before others, and the name.

    Args:
        load: by instance, how many tasks it is active for; 0 for one that is not in it.
    """

    def key(name: str) -> tuple[bool, bool, bool, bool, bool, int, int, bool, str]:
        status, load_of_it = statuses.get(name), load.get(name, 0)
        paused = status is not None and status.paused
        copy = standby_copy(status, task_id)
        if copy is None:
            return True, paused, True, False, True, 0, load_of_it, True, name
        lag, faulty = copy.lag_records, copy.error is not None
        uncertified = copy.certificate.position is None
        return False, paused, not copy.warm, faulty, lag is None, lag or 0, load_of_it, uncertified, name

    return sorted(instances, key=key)
