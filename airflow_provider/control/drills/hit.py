"""Whom a drill hits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.drill_fault import DRILLS, DrillKind, Victim
from airflow_provider.control.records.status import Role
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError, InstanceError


def choose_victim(
    view: ControlView, healthy: Collection[str], instance: str | None = None, role: Role = Role.ACTIVE
) -> str:
    """The instance to make fail: the named one, or the one with the most tasks.

    Args:
        healthy: the instances that live.
        instance: its name; None for any.
        role: as which it is to hold the tasks.

    Raises:
        AssignmentError: nothing is assigned yet.
        InstanceError: no instance lives, or the named one does not.
    """
    if view.assignment is None:
        raise AssignmentError(f"Nothing of {view.application_id!r} is assigned yet: deploy it before a drill.")
    if not healthy or (instance is not None and instance not in healthy):
        raise InstanceError(
            f"Instance {instance or 'of any name'!r} of {view.application_id!r} is not alive (alive: "
            f"{', '.join(sorted(healthy)) or 'none'}): a drill needs one that does."
        )
    if instance is not None:
        return instance
    tasks_of = view.assignment.active_on if role is Role.ACTIVE else view.assignment.standby_on
    return min(healthy, key=lambda name: (-len(tasks_of(name)), name))


def choose_task(view: ControlView, instance: str, role: Role) -> TaskId:
    """The task of an instance that processes most, so that there is something to measure; one with a store, if any.

    A drill of this kind befalls a store, and a stage that keeps no state has nothing to lose.

    Args:
        role: as which it holds the task.

    Raises:
        InstanceError: it holds none so.
    """
    assignment = view.assignment
    given: tuple[TaskId, ...] = ()
    if assignment is not None:
        given = assignment.active_on(instance) if role is Role.ACTIVE else assignment.standby_on(instance)
    if assignment is None or not given:
        raise InstanceError(
            f"{instance!r} of {view.application_id!r} has no {role.value} task, and this drill needs one: name another "
            "instance, or wait until the tasks are assigned."
        )

    stateless = {stage.number for stage in view.job.stages if stage.store is None} if view.job else set()

    def rate(task_id: TaskId) -> float:
        owner = view.statuses.get(assignment.tasks[task_id].active or "")
        task = owner.task(task_id) if owner else None
        return 0.0 if task is None else task.records_per_s

    return min(given, key=lambda task_id: (task_id.stage in stateless, -rate(task_id), task_id))


@dataclass(frozen=True, kw_only=True)
class Hit:
    """Whom a drill hits.

    Args:
        instance: that is made to fail.
        tasks: its active tasks, or the one whose store is hit.
        copies: the other living instances whose copies of the task are hit too.
    """

    instance: str
    tasks: tuple[TaskId, ...]
    copies: tuple[str, ...] = ()


def choose_hit(view: ControlView, kind: DrillKind, instance: str | None, healthy: Collection[str]) -> Hit:
    """Whom a drill of a kind hits.

    Args:
        instance: which is to fail; None takes the one with the most tasks.
        healthy: the instances that live.

    Raises:
        AssignmentError: nothing is assigned yet.
        InstanceError: no instance lives, the named one does not, or it holds no task that could be hit.
    """
    victim, assignment = DRILLS[kind].victim, view.assignment
    role = _role(victim, assignment)
    hit = choose_victim(view, healthy, instance, role)
    if victim is Victim.INSTANCE:
        tasks = assignment.active_on(hit) if assignment else ()
        if DRILLS[kind].until_moved and not tasks:
            raise InstanceError(
                f"{hit!r} of {view.application_id!r} is active for no task, and a drill {kind.value} lasts until its "
                "tasks run elsewhere: name another instance, or wait until it has tasks."
            )
        return Hit(instance=hit, tasks=tasks)
    task = choose_task(view, hit, role)
    backing = assignment.tasks[task].standbys if assignment else ()
    if victim in (Victim.ACTIVE, Victim.COPIES) and not backing:
        raise InstanceError(
            f"Task {task} of {view.application_id!r} has no standby, and would be restored in place, without a "
            "failover: assign standbys before this drill."
        )
    copies = tuple(name for name in backing if name in healthy) if victim is Victim.COPIES else ()
    return Hit(instance=hit, tasks=(task,), copies=copies)


def _role(victim: Victim, assignment: Assignment | None) -> Role:
    """As which the instance that is hit is to hold the task."""
    backed = assignment is not None and any(task.standbys for task in assignment.tasks.values())
    return Role.STANDBY if victim is Victim.STANDBY or (victim is Victim.COPY and backed) else Role.ACTIVE
