"""Finds what went wrong: pure functions of what the control topics hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.ranking import has_quick_copy
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import Incident, IncidentKind
from airflow_provider.control.records.status import InstanceState, InstanceStatus, TaskState, TaskStatus
from airflow_provider.control.topics.liveness import Liveness, Timeouts, highest_generation, liveness, running_instances
from airflow_provider.errors import OvertakenError


def detect(
    assignment: Assignment | None,
    statuses: Mapping[str, InstanceStatus],
    silent_for_s: Mapping[str, float],
    timeouts: Timeouts,
    heard_at_ms: Mapping[str, int] | None = None,
) -> tuple[Incident, ...]:
    """Every incident that the newest assignment has not answered yet: of each instance, sorted, then of all.

    An instance matters as long as the assignment names it; publishing a generation without it answers the incident,
    so the same incident is never found again.

    A standby that has failed is no incident: it fails for what every instance would meet (`ErrorClass.JOB`), so no
    place for it is better, and a repair would be followed by the next. `status` and the monitor name it until a person
    acts.

    Args:
        assignment: the newest one; None before the first, when nothing can be wrong but that there was one.
        silent_for_s: seconds since each instance's last heartbeat, by the observer's own monotonic clock; of one that
            never sent one, for how long the observer has expected it, or it is not judged.
        heard_at_ms: of each instance's last heartbeat, epoch ms by the broker's clock; None where the answer need not
            be compared with a later look.
    """
    running = running_instances(statuses, silent_for_s, timeouts)
    if assignment is None:
        return tuple(_lost_assignment([statuses[name] for name in running]))
    found: list[Incident] = []
    for name in assignment.instances:
        status = statuses.get(name)
        gone = _gone(assignment, name, status, silent_for_s.get(name), timeouts, running, heard_at_ms)
        if gone is not None:
            found.append(gone)
        elif status is not None and (lost := _restarted(assignment, status, statuses, running, heard_at_ms)):
            found.append(lost)
        elif status is not None and status.state.alive:
            found.extend(_failed_tasks(assignment, status, statuses))
            found.extend(_stalled_tasks(assignment, status, statuses, timeouts))
    found.extend(_lost_generation(assignment, {name: statuses[name] for name in running}))
    found.extend(_unowned_tasks(assignment, running))
    return tuple(found)


def is_open(
    incident: Incident,
    assignment: Assignment,
    statuses: Mapping[str, InstanceStatus],
    heard_at_ms: Mapping[str, int] | None = None,
) -> bool:
    """Whether an incident that was found earlier is still to be answered.

    Args:
        heard_at_ms: of the last heartbeat of each, by the same clock as `Incident.heard_at_ms`; None where the incident
            was found in the same look.
    """
    status = statuses.get(incident.instance)
    match incident.kind:
        case IncidentKind.TASKS_UNOWNED:
            return any(task.active is None for task in assignment.tasks.values())
        case IncidentKind.GENERATION_LOST:
            highest = highest_generation(statuses.values())
            return highest > assignment.generation or not _overtaken(assignment, statuses).isdisjoint(incident.tasks)
    if status is not None and status.incarnation > incident.incarnation and status.state is InstanceState.RUNNING:
        # A newer process took its name. It resumes the tasks itself; the old process is fenced by it.
        return False
    if incident.kind.of_instance:
        return incident.instance in assignment.instances and not _sent_since(incident, status, heard_at_ms)
    if set(incident.tasks).isdisjoint(assignment.active_on(incident.instance)):
        return False
    task = status.task(incident.tasks[0]) if status is not None else None
    if incident.kind is IncidentKind.TASK_FAILED and task is not None:
        # It was tried again, and works.
        return task.state is not TaskState.RUNNING or task.error is not None or task.generation < incident.active_since
    if incident.kind is IncidentKind.TASK_STALLED:
        return task is None or task.source_offset == incident.source_offset
    return True


def _sent_since(incident: Incident, status: InstanceStatus | None, heard_at_ms: Mapping[str, int] | None) -> bool:
    """Whether one that was silent has sent a heartbeat since.

    Any other time closes it: where the broker's clock was set back, the watcher has to look again.
    """
    if incident.kind is not IncidentKind.HEARTBEAT_MISSED or incident.heard_at_ms is None or heard_at_ms is None:
        return False
    alive = status is not None and status.state.alive
    return alive and heard_at_ms.get(incident.instance, 0) != incident.heard_at_ms


def _gone(
    assignment: Assignment,
    name: str,
    status: InstanceStatus | None,
    silent_s: float | None,
    timeouts: Timeouts,
    running: Collection[str],
    heard_at_ms: Mapping[str, int] | None,
) -> Incident | None:
    found = _how_gone(name, status, silent_s, timeouts, running)
    if found is None:
        return None
    kind, evidence = found
    return Incident(
        application_id=assignment.application_id,
        kind=kind,
        instance=name,
        incarnation=status.incarnation if status is not None else 0,
        tasks=assignment.active_on(name),
        evidence=evidence,
        generation=assignment.generation,
        heard_at_ms=None if heard_at_ms is None else heard_at_ms.get(name, 0),
    )


def _how_gone(
    name: str, status: InstanceStatus | None, silent_s: float | None, timeouts: Timeouts, running: Collection[str]
) -> tuple[IncidentKind, str] | None:
    if status is None:
        allowed_s = timeouts.allowed_s(InstanceState.STARTING)
        if silent_s is None or silent_s <= allowed_s:
            return None
        evidence = f"no heartbeat ever (allowed {allowed_s:g} s): was it deployed under this name?"
        return IncidentKind.HEARTBEAT_MISSED, evidence
    if status.state is InstanceState.STOPPED:
        return _how_stopped(name, status, running)
    match liveness(status, silent_s or 0.0, timeouts):
        case Liveness.ENDED:
            return IncidentKind.INSTANCE_ENDED, f"ended without a clean shutdown, {_how_it_ended(status)}"
        case Liveness.SILENT:
            allowed_s = timeouts.allowed_s(status.state)
            evidence = f"no heartbeat for {silent_s:.1f} s while {status.state.value} (allowed {allowed_s:g} s)"
            return IncidentKind.HEARTBEAT_MISSED, evidence
        case Liveness.ALIVE:
            return None


def _how_stopped(name: str, status: InstanceStatus, running: Collection[str]) -> tuple[IncidentKind, str] | None:
    if status.stop_hand_over is None:
        evidence = "shut down cleanly, and no command asked it to: its host was rebooted or drained, or it got SIGTERM"
        return IncidentKind.INSTANCE_STOPPED, evidence
    if status.stop_hand_over and set(running) - {name}:
        return IncidentKind.HAND_OVER, "was asked to stop and hand its tasks over, and another instance runs now"
    return None  # asked to keep them, or there is none to hand them to


def _restarted(
    assignment: Assignment,
    status: InstanceStatus,
    statuses: Mapping[str, InstanceStatus],
    running: Collection[str],
    heard_at_ms: Mapping[str, int] | None,
) -> Incident | None:
    """One that failed and was started again before anyone saw it: whoever did that, what is warm need not wait for it.

    What has no warm copy is quickest where it is, and is none.
    """
    former = status.former
    if former is None or not status.replaces(former.incarnation):
        return None
    tasks = tuple(
        task_id
        for task_id in assignment.active_on(status.instance)
        if assignment.tasks[task_id].active_since <= former.generation
    )
    if not any(has_quick_copy(task_id, running, statuses) for task_id in tasks):
        return None
    stopped = former.state is InstanceState.STOPPED
    return Incident(
        application_id=assignment.application_id,
        kind=IncidentKind.INSTANCE_STOPPED if stopped else IncidentKind.INSTANCE_ENDED,
        instance=status.instance,
        incarnation=former.incarnation,
        tasks=tasks,
        evidence=f"incarnation {former.incarnation} is gone ({former.how}), and the next one is starting",
        generation=assignment.generation,
        heard_at_ms=None if heard_at_ms is None else heard_at_ms.get(status.instance, 0),
    )


def _failed_tasks(
    assignment: Assignment, status: InstanceStatus, statuses: Mapping[str, InstanceStatus]
) -> Iterator[Incident]:
    for task in _active_tasks(assignment, status):
        if task.state is TaskState.FAILED:
            evidence = f"task {task.task} failed: {task.error}"
            committed = _has_committed(task, statuses)
            yield _of_task(IncidentKind.TASK_FAILED, assignment, status, task, evidence, committed=committed)


def _stalled_tasks(
    assignment: Assignment, status: InstanceStatus, statuses: Mapping[str, InstanceStatus], timeouts: Timeouts
) -> Iterator[Incident]:
    if status.paused:
        return
    for task in _active_tasks(assignment, status):
        if task.state is TaskState.FAILED or task.source.stalled_s <= timeouts.stall_s:
            continue
        source = task.source
        blocked = not source.lag_records and bool(source.uncommitted_records)
        waiting = (
            f"{source.uncommitted_records} records of its source belong to a transaction that is open"
            if blocked
            else f"{source.lag_records} records of its source wait"
        )
        why = f"; {task.error}" if task.error else ""
        evidence = (
            f"task {task.task} is {task.state.value} and has committed nothing for {source.stalled_s:.0f} s (allowed "
            f"{timeouts.stall_s:g} s) at offset {task.source_offset}, while {waiting}{why}"
        )
        committed = _has_committed(task, statuses)
        yield _of_task(
            IncidentKind.TASK_STALLED, assignment, status, task, evidence, committed=committed, source_blocked=blocked
        )


def _active_tasks(assignment: Assignment, status: InstanceStatus) -> Iterator[TaskStatus]:
    """Its active tasks, as it reports them; what it says of an older generation was answered by the newer one."""
    for task_id in assignment.active_on(status.instance):
        task = status.active_task(task_id, assignment.tasks[task_id].active_since)
        if task is not None:
            yield task


def _has_committed(task: TaskStatus, statuses: Mapping[str, InstanceStatus]) -> bool:
    """Whether an active has committed since its instance got the task.

    A process that was started again since, or lost the store, may not know it; what follows the changelog does.
    """
    if task.first_commit_at_ms is not None:
        return True
    copies = (status.task(task.task) for status in statuses.values())
    return any(copy is not None and copy.committed_generation == task.generation for copy in copies)


def _of_task(
    kind: IncidentKind,
    assignment: Assignment,
    status: InstanceStatus,
    task: TaskStatus,
    evidence: str,
    *,
    committed: bool,
    source_blocked: bool = False,
) -> Incident:
    return Incident(
        application_id=assignment.application_id,
        kind=kind,
        instance=status.instance,
        incarnation=status.incarnation,
        tasks=(task.task,),
        evidence=evidence,
        error_kind=task.error_kind,
        active_since=assignment.tasks[task.task].active_since,
        replay=task.replay if kind is IncidentKind.TASK_FAILED else None,
        generation=assignment.generation,
        committed=committed,
        source_offset=task.source_offset,
        source_blocked=source_blocked,
    )


def _lost_generation(assignment: Assignment, statuses: Mapping[str, InstanceStatus]) -> Iterator[Incident]:
    highest, overtaken = highest_generation(statuses.values()), tuple(sorted(_overtaken(assignment, statuses)))
    if highest > assignment.generation:
        yield _of_all(
            IncidentKind.GENERATION_LOST,
            assignment,
            tuple(assignment.tasks),
            f"the newest assignment is generation {assignment.generation}, and generation {highest} was carried out: "
            "the assignment topic was lost, created again or put back",
        )
    elif overtaken:
        yield _of_all(
            IncidentKind.GENERATION_LOST,
            assignment,
            overtaken,
            f"task(s) {', '.join(map(str, overtaken))} were given in a generation in which others had "
            "committed before: the assignment topic was lost or created again, and its generations began anew",
        )


def _overtaken(assignment: Assignment, statuses: Mapping[str, InstanceStatus]) -> set[TaskId]:
    """The tasks whose owner waits for a newer assignment than the newest (`OvertakenError`)."""
    return {
        task.task
        for name in assignment.instances
        if name in statuses
        for task in _active_tasks(assignment, statuses[name])
        if task.state is TaskState.CLOSED and task.error_kind == OvertakenError.__name__
    }


def _lost_assignment(statuses: Sequence[InstanceStatus]) -> Iterator[Incident]:
    highest = highest_generation(statuses)
    if highest:
        none = Assignment.empty(statuses[0].application_id, {task.task for status in statuses for task in status.tasks})
        yield _of_all(
            IncidentKind.GENERATION_LOST,
            none,
            tuple(none.tasks),
            f"the assignment topic holds no assignment, and generation {highest} was carried out: it was lost or "
            "created again",
        )


def _unowned_tasks(assignment: Assignment, running: Collection[str]) -> Iterator[Incident]:
    bare = tuple(task_id for task_id, task in assignment.tasks.items() if task.active is None)
    if bare and running:
        yield _of_all(
            IncidentKind.TASKS_UNOWNED,
            assignment,
            bare,
            f"task(s) {', '.join(map(str, bare))} have no active instance, and {', '.join(sorted(running))} could be",
        )


def _of_all(kind: IncidentKind, assignment: Assignment, tasks: tuple[TaskId, ...], evidence: str) -> Incident:
    return Incident(
        application_id=assignment.application_id,
        kind=kind,
        instance="",
        incarnation=0,
        tasks=tasks,
        evidence=evidence,
        generation=assignment.generation,
    )


def _how_it_ended(status: InstanceStatus) -> str:
    code = status.process.exit_code
    if code is None:
        return status.error or "exit status unknown"
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"
