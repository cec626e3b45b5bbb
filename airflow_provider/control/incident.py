"""What went wrong, found by a pure function of what the control topics hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.status import InstanceState, InstanceStatus, Role, TaskState

__all__ = ["Incident", "IncidentKind", "IncidentRecord", "detect"]


class IncidentKind(Enum):
    """What can go wrong with an instance."""

    INSTANCE_ENDED = "instance_ended"
    """Its process ended without a goodbye, as its launcher told."""
    HEARTBEAT_MISSED = "heartbeat_missed"
    """It was not heard of for the instance timeout: its host is lost, or it hangs."""
    TASK_FAILED = "task_failed"
    """It reports that a task stopped with an error."""
    BY_HAND = "by_hand"
    """Nothing was found wrong: a person wants everything moved off it."""


@dataclass(frozen=True)
class Incident:
    """One thing that went wrong, the same for whoever finds it.

    Args:
        application_id: the application.
        kind: what happened.
        instance: to which instance.
        incarnation: to which process of it.
        tasks: the tasks that it held as the active one, or the failed tasks.
        evidence: what was seen, in one line.
        error_kind: for `IncidentKind.TASK_FAILED`, the name of the first task's error.
        active_since: for `IncidentKind.TASK_FAILED`, the generation in which the instance got the task.
        generation: of the assignment that names the instance.
        committed: for `IncidentKind.TASK_FAILED`, whether the instance had committed anything since it got the task.
    """

    application_id: str
    kind: IncidentKind
    instance: str
    incarnation: int
    tasks: tuple[int, ...]
    evidence: str
    error_kind: str | None = None
    active_since: int = 0
    generation: int = 0
    committed: bool = False

    @property
    def id(self) -> str:
        """The same for the same incident, so that it can be answered once.

        An instance that is gone is one incident, whether its launcher tells or its heartbeat stays away. One that was
        only silent comes back under its incarnation and is named again by a later generation: its end is another.
        Found under two generations before it is answered, it has two ids, and the second finds it answered.
        """
        if self.kind is IncidentKind.TASK_FAILED:
            return f"{self.instance}/{self.incarnation}/failed-{'-'.join(map(str, self.tasks))}-{self.active_since}"
        if self.kind is IncidentKind.BY_HAND:
            return f"{self.instance}/{self.incarnation}/by-hand"
        return f"{self.instance}/{self.incarnation}/gone-{self.generation}"


@dataclass(frozen=True)
class IncidentRecord:
    """What was done about an incident; kept in ``<app>-status`` under ``incident/<id>``.

    Args:
        incident: what went wrong.
        answered_by: the run that decided, e.g. an Airflow run id.
        detected_at_ms: epoch ms at which the watcher saw it.
        decided_at_ms: epoch ms at which the next generation was published.
        generation: of the assignment that answers it.
        decisions: one line of evidence per task.
        resolved_at_ms: epoch ms at which every task had its standbys again; None until then.
        failed_at_ms: when the instance was last heard of, or its end was told, epoch ms by the broker's clock.
    """

    incident: Incident
    answered_by: str
    detected_at_ms: int | None
    decided_at_ms: int
    generation: int
    decisions: tuple[str, ...] = ()
    resolved_at_ms: int | None = None
    failed_at_ms: int | None = None


def detect(
    assignment: Assignment | None,
    statuses: Mapping[str, InstanceStatus],
    silent_for_s: Mapping[str, float],
    instance_timeout_s: float,
    start_timeout_s: float = 120.0,
) -> tuple[Incident, ...]:
    """Every incident that the newest assignment has not answered yet, sorted by instance.

    An instance matters as long as the assignment names it; publishing a generation without it answers the incident,
    so the same incident is never found again.

    Args:
        assignment: the newest one; None before the first, when nothing can be wrong.
        statuses: the newest status of each instance.
        silent_for_s: seconds since each instance was last heard of, by the observer's own monotonic clock.
        instance_timeout_s: silence longer than this is a missed heartbeat.
        start_timeout_s: the same for an instance that is starting: it cannot send one before Spark is up.
    """
    if assignment is None:
        return ()
    found: list[Incident] = []
    for name in assignment.instances:
        status = statuses.get(name)
        if status is None or status.state is InstanceState.STOPPED:
            continue  # never started, or said goodbye: a person or a DAG did that
        allowed_s = max(instance_timeout_s, start_timeout_s if status.state is InstanceState.STARTING else 0.0)
        if status.state is InstanceState.ENDED:
            kind, evidence = IncidentKind.INSTANCE_ENDED, f"ended without a goodbye, {_how_it_ended(status)}"
        elif silent_for_s.get(name, 0.0) > allowed_s:
            kind = IncidentKind.HEARTBEAT_MISSED
            evidence = (
                f"not heard of for {silent_for_s[name]:.1f} s while {status.state.value} (allowed {allowed_s:g} s)"
            )
        else:
            found.extend(_failed_tasks(assignment, status))
            continue
        active = assignment.active_on(name)
        found.append(
            Incident(
                assignment.application_id,
                kind,
                name,
                status.incarnation,
                active,
                evidence,
                generation=assignment.generation,
            )
        )
    return tuple(found)


def _failed_tasks(assignment: Assignment, status: InstanceStatus) -> list[Incident]:
    found = []
    for number in assignment.active_on(status.instance):
        task = status.task(number)
        # An older generation's failure was answered by the generation that gave the task out again.
        current = task is not None and task.generation >= assignment.tasks[number].active_since
        if task and current and task.role is Role.ACTIVE and task.state is TaskState.FAILED:
            found.append(
                Incident(
                    assignment.application_id,
                    IncidentKind.TASK_FAILED,
                    status.instance,
                    status.incarnation,
                    (number,),
                    f"task {number} failed: {task.error}",
                    task.error_kind,
                    assignment.tasks[number].active_since,
                    assignment.generation,
                    task.first_commit_at_ms is not None,
                )
            )
    return found


def _how_it_ended(status: InstanceStatus) -> str:
    code = status.exit_code
    if code is None:
        return status.error or "exit status unknown"
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"
