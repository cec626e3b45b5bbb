"""Whether the disks could take what a drill may ask of them at the worst: a pure function of the status."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.drill import Hit
from airflow_provider.control.drills.kind import DRILLS, DrillKind, Room
from airflow_provider.control.status import InstanceStatus
from airflow_provider.control.view import ControlView

__all__ = ["disk_problems"]

_MIB = 1 << 20
_WHEN: Final = {
    Room.PROMOTED: "if the stores that it takes over from {victim} had to be restored afresh",
    Room.HIT: "for a second copy of its store of task {tasks}",
    Room.ANYWHERE: "if it had to replay task {tasks}, of which no copy is left",
}


def disk_problems(view: ControlView, kind: DrillKind, hit: Hit, healthy: Collection[str]) -> tuple[str, ...]:
    """What speaks against a drill, a line for each instance whose disk could not take the worst case of its kind.

    `Room` says what that is. Each copy that may come to be counts as large as a store of those that hold the task now:
    the mean of those beside it, of the instance where that is largest.

    Args:
        view: the newest.
        kind: of the drill.
        hit: whom it hits.
        healthy: the instances that live.
    """
    if view.assignment is None or hit.instance not in view.statuses:
        return ()
    found = []
    for room in DRILLS[kind].room:
        for name in _who(view, room, hit, healthy):
            tasks = [task for task in hit.tasks if room is not Room.PROMOTED or _stands_by(view, task, name)]
            wanted = sum(_copy_bytes(view, task) for task in tasks)
            disk, host = view.statuses[name].disk, view.statuses[name].stores_host
            if wanted and (disk.free_bytes is None or disk.free_bytes < wanted):
                free = "an unknown number of" if disk.free_bytes is None else f"{disk.free_bytes / _MIB:,.0f}"
                when = _WHEN[room].format(victim=hit.instance, tasks=", ".join(map(str, tasks)))
                found.append(
                    f"{name} has {free} MiB free at {disk.folder or 'its stores'} on {host or 'its host'}, and would "
                    f"need {wanted / _MIB:,.0f} MiB {when}: free some, or use a larger disk."
                )
    return tuple(found)


def _who(view: ControlView, room: Room, hit: Hit, healthy: Collection[str]) -> Iterator[str]:
    """The instances that may need the room."""
    struck = {hit.instance, *hit.copies}
    for name in sorted(view.statuses):
        match room:
            case Room.HIT if name in struck:
                yield name
            case Room.PROMOTED if any(_stands_by(view, task, name) for task in hit.tasks):
                yield name
            case Room.ANYWHERE if name in healthy and name not in struck:
                yield name


def _stands_by(view: ControlView, task: TaskId, name: str) -> bool:
    return view.assignment is not None and name in view.assignment.tasks[task].standbys


def _copy_bytes(view: ControlView, task: TaskId) -> int:
    given = view.assignment.tasks[task] if view.assignment else None
    holders = (given.active, *given.standbys) if given else ()
    return max((_store_bytes(view.statuses[name]) for name in holders if name in view.statuses), default=0)


def _store_bytes(status: InstanceStatus) -> int:
    return status.disk.used_bytes // len(status.tasks) if status.tasks else 0
