"""What to do about an incident: a pure function that keeps its evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from airflow_provider.control.assignment import Assignment, TaskAssignment
from airflow_provider.control.assignor import assign
from airflow_provider.control.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.status import InstanceState, InstanceStatus, Role

__all__ = ["Action", "Decision", "FailoverPlan", "decide"]

# Whoever owns the task meets the same record or the same setting again: moving the task would only spread the failure.
_FAILS_ANYWHERE = frozenset({"DecodeError", "ProcessError", "RecordError", "ConfigurationError", "ReservedKeyError",
                             "TopicError", "TopicMissingError", "TopicMismatchError"})  # fmt: skip


class Action(Enum):
    """What becomes of a task."""

    PROMOTE = "promote"
    """A standby becomes the active one. Costs its lag."""
    REPLAY = "replay"
    """An instance without a warm copy becomes the active one and restores it from the changelog."""
    WAIT = "wait"
    """No living instance is there: a new one has to be deployed."""
    HOLD = "hold"
    """The task would fail anywhere, or did: a person has to mend the record, the function, the setting or the host."""


@dataclass(frozen=True)
class Decision:
    """What becomes of one task, and why.

    Args:
        task: its number.
        action: see `Action`.
        to: the instance that is to be active; None for `Action.WAIT` and `Action.HOLD`.
        evidence: the candidates and what was known of each, in one line.
    """

    task: int
    action: Action
    to: str | None
    evidence: str

    def __str__(self) -> str:
        """One line for a log or a report."""
        where = f" on {self.to}" if self.to else ""
        return f"task {self.task}: {self.action.value}{where} ({self.evidence})"


@dataclass(frozen=True)
class FailoverPlan:
    """The answer to an incident.

    Args:
        decisions: one a task that is concerned, in order; empty when the assignment answers the incident already.
        assignment: the generation to publish; None when nothing changes.
    """

    decisions: tuple[Decision, ...]
    assignment: Assignment | None


def decide(
    incident: Incident,
    assignment: Assignment,
    statuses: Mapping[str, InstanceStatus],
    healthy: Collection[str],
    num_standby_replicas: int = 1,
    answered: Mapping[str, IncidentRecord] | None = None,
) -> FailoverPlan:
    """Promote the most caught-up healthy standby; else replay; else wait.

    A task that failed goes to no instance on which it failed before without a commit in between, so what makes it fail
    everywhere passes each instance once at the most and is then left to a person.

    Args:
        incident: what went wrong.
        assignment: the newest one.
        statuses: the newest status of each instance.
        healthy: instances heard of within the instance timeout; the incident's own is left out by itself unless only
            a task of it failed.
        num_standby_replicas: wanted standbys a task; filled up at once where instances are left.
        answered: by incident id, what was decided before.
    """
    gone = incident.kind is not IncidentKind.TASK_FAILED
    if not _still_open(incident, assignment, statuses):
        return FailoverPlan((), None)
    alive = sorted(name for name in healthy if not (gone and name == incident.instance))
    load = Counter(task.active for task in assignment.tasks if task.active and task.active in alive)
    decisions, tasks = [], list(assignment.tasks)
    concerned = assignment.active_on(incident.instance) if gone else incident.tasks
    for number in concerned:
        if not gone and incident.error_kind in _FAILS_ANYWHERE:
            evidence = f"{incident.evidence}; any owner would fail at the same place"
            decisions.append(Decision(number, Action.HOLD, None, evidence))
            continue
        tried = {incident.instance} if gone else _failed_on(number, incident, (answered or {}).values())
        candidates = [name for name in alive if name not in tried]
        if not gone and not candidates:
            evidence = f"{incident.evidence}; failed on {', '.join(sorted(tried))}, and nobody else is there"
            decisions.append(Decision(number, Action.HOLD, None, evidence))
            continue
        decision = _choose(number, assignment.tasks[number], statuses, candidates, load)
        if decision.to:
            load[decision.to] += 1
        decisions.append(decision)
        tasks[number] = TaskAssignment(decision.to, assignment.tasks[number].standbys)
    dropped = {incident.instance} if gone else set()
    kept = tuple(
        TaskAssignment(
            task.active if task.active not in dropped else None,
            tuple(name for name in task.standbys if name not in dropped and name != task.active),
        )
        for task in tasks
    )
    if all(d.action is Action.HOLD for d in decisions) and not gone:
        return FailoverPlan(tuple(decisions), None)
    reason = f"failover of {incident.instance}: {incident.evidence}"
    bare = assignment.next(kept, reason)
    # No instance is new here, so this keeps the actives just chosen and only fills up standbys.
    filled = assign(bare, alive, num_standby_replicas)
    keep_waiting = tuple(
        TaskAssignment(b.active, f.standbys if b.active else b.standbys)
        for b, f in zip(bare.tasks, filled, strict=True)
    )
    return FailoverPlan(tuple(decisions), assignment.next(keep_waiting, reason))


def _still_open(incident: Incident, assignment: Assignment, statuses: Mapping[str, InstanceStatus]) -> bool:
    status = statuses.get(incident.instance)
    if status is not None and status.incarnation > incident.incarnation and status.state is InstanceState.RUNNING:
        # A newer process took its name. It resumes the tasks itself; the old process is fenced by it.
        return False
    if incident.kind is IncidentKind.TASK_FAILED:
        return any(assignment.tasks[t].active == incident.instance for t in incident.tasks)
    return incident.instance in assignment.instances


def _failed_on(number: int, incident: Incident, answered: Iterable[IncidentRecord]) -> set[str]:
    """Where a task failed one after the other, each having got it by the answer to the failure before."""
    by_generation = {
        record.generation: record.incident
        for record in answered
        if record.incident.kind is IncidentKind.TASK_FAILED and number in record.incident.tasks
    }
    tried, link = {incident.instance}, incident
    while not link.committed and (before := by_generation.pop(link.active_since, None)) is not None:
        tried.add(before.instance)
        link = before
    return tried


def _choose(
    number: int,
    task: TaskAssignment,
    statuses: Mapping[str, InstanceStatus],
    candidates: Collection[str],
    load: Mapping[str, int],
) -> Decision:
    copies = []
    for name in candidates:
        seen = statuses[name].task(number) if name in statuses else None
        if seen is not None and seen.role is Role.STANDBY and seen.position is not None:
            # One that tells trouble, such as a full disk, is the last choice.
            trouble, unknown = seen.error is not None, seen.lag_records is None
            uncertified = seen.certified_position is None
            copies.append((trouble, unknown, seen.lag_records or 0, load.get(name, 0), uncertified, name))
    known = {
        name: ("lag unknown" if unknown else f"lag {lag}")
        + ("" if uncertified else ", certified")
        + (", in trouble" if trouble else "")
        for trouble, unknown, lag, _, uncertified, name in copies
    }
    evidence = ", ".join(f"{name}: {known.get(name, 'no copy')}" for name in candidates) or "no healthy instance"
    if copies:
        return Decision(number, Action.PROMOTE, min(copies)[-1], evidence)
    if candidates:
        preferred = [name for name in task.standbys if name in candidates] or candidates
        chosen = min(preferred, key=lambda n: (load.get(n, 0), n))
        return Decision(number, Action.REPLAY, chosen, evidence)
    return Decision(number, Action.WAIT, None, evidence)
