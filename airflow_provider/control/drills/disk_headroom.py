"""Whether the disks could take what a drill may ask of them at the worst: a pure function of the status."""

from __future__ import annotations

from collections import defaultdict

from airflow_provider.control.status import InstanceStatus
from airflow_provider.control.view import ControlView

__all__ = ["disk_problems"]

_MIB = 1 << 20


def disk_problems(view: ControlView, victim: str) -> tuple[str, ...]:
    """What speaks against making an instance fail, a line for each host of its standbys.

    At the worst the copy that is promoted turns out to be bad: it is moved aside and kept, and the store is restored
    afresh beside it. So an instance with standbys of the victim's tasks needs room for one more copy of each of their
    stores. A store is taken for as large as the mean of those beside it, of the active's or of the standby's instance,
    whichever is larger.

    Args:
        view: the newest.
        victim: the instance that is to fail.
    """
    if view.assignment is None or victim not in view.statuses:
        return ()
    needed: dict[str, int] = defaultdict(int)
    for task_id in view.assignment.active_on(victim):
        for name in view.assignment.tasks[task_id].standbys:
            if name in view.statuses:
                needed[name] += max(_store_bytes(view.statuses[victim]), _store_bytes(view.statuses[name]))
    found = []
    for name, wanted in sorted(needed.items()):
        disk, host = view.statuses[name].disk, view.statuses[name].process.host
        if wanted and (disk.free_bytes is None or disk.free_bytes < wanted):
            free = "an unknown number of" if disk.free_bytes is None else f"{disk.free_bytes / _MIB:,.0f}"
            found.append(
                f"{name} has {free} MiB free at {disk.folder or 'its stores'} on {host or 'its host'}, and would need "
                f"{wanted / _MIB:,.0f} MiB if the stores that it takes over from {victim} had to be restored afresh: "
                "free some, or use a larger disk."
            )
    return tuple(found)


def _store_bytes(status: InstanceStatus) -> int:
    return status.disk.used_bytes // len(status.tasks) if status.tasks else 0
