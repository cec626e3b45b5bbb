"""Whether an application is fit for a drill, whom it hits and what is waited for in it: pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.table import mib
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.open_problems import (
    open_incidents,
    unanswered_problems,
    unrepaired_problems,
    watch_problem,
)
from airflow_provider.control.outlook.predicted_rto import PredictedRto, worst_rto_ms
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.drill_fault import DRILLS, LONGEST_FAULT_S, DrillKind, InjectedFault, Room, Victim
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord
from airflow_provider.control.records.status import InstanceStatus, Role
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.evaluation import Condition, Observation, Outcome
from airflow_provider.control.waiting.recovery import FaultEnded, FaultTaken, IncidentResolved
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.control.waiting.task import TasksReplayed
from airflow_provider.errors import AssignmentError, InstanceError


def choose_victim(
    view: ControlView, healthy: Collection[str], instance: str | None = None, role: Role = Role.ACTIVE
) -> str:
    """The instance to make fail: the named one, or the one with the most tasks.

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
        tasks: its active tasks, or the one whose store is hit.
        copies: the other living instances whose copies of the task are hit too.
    """

    instance: str
    tasks: tuple[TaskId, ...]
    copies: tuple[str, ...] = ()


def choose_hit(view: ControlView, kind: DrillKind, instance: str | None, healthy: Collection[str]) -> Hit:
    """Whom a drill of a kind hits.

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


def fault_taken(fault: InjectedFault) -> Condition:
    """The instances have done to themselves what the drill asked."""
    spec = fault.spec
    return FaultTaken(
        processes=fault.processes,
        command=fault.id,
        tasks=() if spec.victim is Victim.INSTANCE or spec.reports else fault.tasks,
        ends_process=spec.ends_process,
    )


def fault_over(fault: InjectedFault) -> Condition:
    """What has to follow has followed: the failure is resolved, the copy whole again, or the instance says so."""
    if fault.spec.reports:
        return FaultEnded(fault.instance, fault.incarnation, fault.id)
    if fault.spec.cause is None:
        return TasksReplayed(fault.instance, fault.id, fault.tasks)
    return IncidentResolved(fault.instance, fault.incarnation, fault.generation)


def redundancy_back(fault: InjectedFault, num_standby_replicas: int) -> Condition:
    """Every task runs and has its warm standbys, by an assignment that answers the fault where one has to.

    Where the standbys were certified before the fault, they have to be again: their digests are those of their actives.
    """
    answered = fault.spec.cause is not None
    return StandbysWarm(
        num_standby_replicas=num_standby_replicas,
        generation=fault.generation + answered,
        certified=fault.certified,
    )


_WHEN: Final = {
    Room.PROMOTED: "if the stores that it takes over from {victim} had to be restored afresh",
    Room.HIT: "for a second copy of its store of task {tasks}",
    Room.ANYWHERE: "if it had to replay task {tasks}, of which no copy is left",
}


def readiness_problems(
    view: ControlView, kind: DrillKind, instance: str | None, timeouts: Timeouts, *, heard: bool | None
) -> tuple[str, ...]:
    """What speaks against a drill of an application whose tasks have their warm standbys, a line each.

    Args:
        heard: whether its watcher spoke while somebody listened; None where nobody else has to answer the failure.
    """
    watched: list[str | None] = []
    if heard is not None:
        watched = [watch_problem(view.application_id, view.watcher, heard=heard)]
        watched += (*unanswered_problems(view), *unrepaired_problems(view)) if heard else ()
    of_hit: tuple[str, ...] = ()
    if view.assignment is not None:  # else no task has a standby, which is for others to say
        healthy = view.healthy(timeouts)
        try:
            of_hit = disk_problems(view, kind, choose_hit(view, kind, instance, healthy), healthy)
        except InstanceError as error:
            of_hit = (str(error),)
    return tuple(line for line in (*watched, *open_incidents(view), *of_hit) if line is not None)


def disk_problems(view: ControlView, kind: DrillKind, hit: Hit, healthy: Collection[str]) -> tuple[str, ...]:
    """What speaks against a drill, a line for each instance whose disk could not take the worst case of its kind.

    `Room` says what that is. Each copy that may come to be counts as large as a store of those that hold the task now:
    the mean of those beside it, of the instance where that is largest.
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
                free = "an unknown number of MiB" if disk.free_bytes is None else mib(disk.free_bytes, 0)
                when = _WHEN[room].format(victim=hit.instance, tasks=", ".join(map(str, tasks)))
                found.append(
                    f"{name} has {free} free at {disk.folder or 'its stores'} on {host or 'its host'}, and would "
                    f"need {mib(wanted, 0)} {when}: free some, or use a larger disk."
                )
    return tuple(found)


def rto_problem(predicted: Collection[PredictedRto], max_rto_s: float | None) -> str | None:
    """That it would take longer than promised, even if all goes as it did before; None where it would not.

    Args:
        predicted: of the tasks that are to be hit; those that go by defaults alone keep no drill from beginning.
    """
    worst_ms = worst_rto_ms([one for one in predicted if one.measured])
    if max_rto_s is None or worst_ms is None or worst_ms <= 1000 * max_rto_s:
        return None
    return (
        f"by what failovers took so far it would take {worst_ms / 1000:.1f} s, and {max_rto_s:g} s are promised: look "
        "at the predicted RTO for the part that takes longest, and drill once that is shorter."
    )


def weakness(
    view: ControlView,
    timeouts: Timeouts,
    history: Sequence[HistoryRecord],
    at_ms: int,
    num_standby_replicas: int | None = None,
) -> str | None:
    """What forbids another fault now; None where nothing does.

    Two drills that were found ready at the same moment would otherwise take the last copies of a task together.

    Args:
        view: the newest, read by the publisher that would write the fault.
        num_standby_replicas: how many warm standbys a task must have; None for all that it is assigned.
    """
    for fault in view.faults.values():
        if open_fault(fault, view, timeouts, history, at_ms):
            what = f"{fault.id} ({fault.kind.value} on {fault.instance})"
            return f"the fault of another drill, {what}, is not over; it is {_way_out(fault)}"
    if (incidents := open_incidents(view)) != ():
        return incidents[0]
    found = StandbysWarm(num_standby_replicas=num_standby_replicas).evaluate(_look(view, timeouts))
    return None if found.outcome is Outcome.MET else found.seen


def open_fault(
    fault: InjectedFault, view: ControlView, timeouts: Timeouts, history: Sequence[HistoryRecord], at_ms: int
) -> bool:
    """Whether what a drill's fault leads to may still come.

    A fault that nobody answered is over, too, once nothing can come of it any more: its processes are gone or refused
    it, its tasks were given to other generations, or it has ended by itself. Whether the application is whole then is
    another question.
    """
    if any(
        (record.kind, record.id) == (HistoryKind.DRILL, fault.id) and record.outcome is not HistoryOutcome.OPEN
        for record in history
    ):
        return False
    if all(_is_gone(name, incarnation, fault, view) for name, incarnation in fault.processes.items()):
        return False
    if fault.spec.cause is not None and _has_moved(fault, view):
        return False
    if fault.spec.until_moved and _has_run_out(fault, view, timeouts, at_ms):
        return False
    status = view.statuses.get(fault.instance)
    reported = None if status is None or status.fault is None else view.faults.get(status.fault.id)
    if fault.spec.reports and reported is not None and reported.injected_at_ms > fault.injected_at_ms:
        return False
    return fault_over(fault).evaluate(_look(view, timeouts)).outcome is Outcome.WAITING


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
    holders = given.holders if given else ()
    return max((_store_bytes(view.statuses[name]) for name in holders if name in view.statuses), default=0)


def _store_bytes(status: InstanceStatus) -> int:
    return status.disk.used_bytes // len(status.tasks) if status.tasks else 0


def _look(view: ControlView, timeouts: Timeouts) -> Observation:
    return Observation(view, silent_for_s=view.silent_for_s, timeouts=timeouts)


def _is_gone(name: str, incarnation: int, fault: InjectedFault, view: ControlView) -> bool:
    status = view.statuses.get(name)
    if status is None or status.incarnation != incarnation:
        return status is not None and status.incarnation > incarnation
    return not status.state.alive or fault.id in status.refusals


def _has_moved(fault: InjectedFault, view: ControlView) -> bool:
    given = view.assignment.tasks if view.assignment else {}
    return bool(fault.tasks) and all(
        task_id in given and given[task_id].active_since > fault.generation for task_id in fault.tasks
    )


def _has_run_out(fault: InjectedFault, view: ControlView, timeouts: Timeouts, at_ms: int) -> bool:
    """The instance has taken it, and goes on: by then it does so whether the failure was answered or not."""
    name = fault.instance
    if at_ms - fault.injected_at_ms <= 1000 * LONGEST_FAULT_S or name not in view.healthy(timeouts):
        return False
    return fault.id in view.statuses[name].last_commands or fault.id not in view.commands.get(name, {})


def _way_out(fault: InjectedFault) -> str:
    """When it is over, without the drill, in words that follow "it is"."""
    names, spec = ", ".join(fault.processes), fault.spec
    again = f"{names} {'is' if len(fault.processes) == 1 else 'are'} started again"
    if spec.until_moved:
        return f"once its tasks were given to others, {LONGEST_FAULT_S:g} s after it began if {names} lives, or {again}"
    if spec.reports:
        return f"once {names} reports its end, or {again}"
    if spec.cause is None:
        return f"once {names} has restored its copy, or {again}"
    return f"once its failure is answered, by the failover DAG or the command 'failover', or {again}"
