"""What to do about an incident: a pure function that keeps its evidence."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.detection import is_open
from airflow_provider.control.failover.pace import FailoverPace, pace_of
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.placement.ranking import has_quick_copy, rank_copies, standby_copy
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.incident import Action, Decision, Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceState, InstanceStatus, TaskStatus
from airflow_provider.control.topics.liveness import highest_generation
from airflow_provider.error_decision import is_permanent

__all__ = ["Action", "Decision", "FailoverPlan", "decide"]


@dataclass(frozen=True)
class FailoverPlan:
    """The answer to an incident.

    Args:
        decisions: one per task that is concerned, in order; empty when the assignment answers the incident already.
        assignment: the generation to publish; None when nothing changes.
    """

    decisions: tuple[Decision, ...]
    assignment: Assignment | None

    @property
    def no_candidate(self) -> bool:
        """Whether a task is held for the only reason that there is no other instance."""
        return any(decision.no_candidate for decision in self.decisions)


def decide(
    incident: Incident,
    assignment: Assignment,
    statuses: Mapping[str, InstanceStatus],
    healthy: Collection[str],
    num_standby_replicas: int = 1,
    answered: Mapping[str, IncidentRecord] | None = None,
    heard_at_ms: Mapping[str, int] | None = None,
    now_ms: int | None = None,
) -> FailoverPlan:
    """Promote the best healthy standby (see `rank_copies`); else replay; else wait.

    An instance that failed and is being started again keeps what no warm standby can take, once: another would replay a
    whole changelog, and it restores what its own store lacks. Where the new process fails as well, others take it.

    A task that failed or stands still goes to no instance on which it did before without a commit in between, so what
    is wrong with it everywhere passes each instance once at the most and is then left to a person.

    An answer takes nothing from an instance that it is not about: one that is only not among the healthy keeps what
    it is assigned until an incident of its own. One that shuts down gets nothing.

    Args:
        healthy: instances with a heartbeat within the instance timeout; the incident's own is left out by itself unless
            only tasks of it are concerned.
        num_standby_replicas: wanted standbys per task; filled up at once where instances are left.
        heard_at_ms: of each instance's last heartbeat, epoch ms by the broker's clock; one that sent another since the
            incident was found is not silent. None where it was found in the same look.
        now_ms: epoch ms, by which failovers that follow each other are held (`pace_of`); None where a person
            asks, who may go on all the same.
    """
    pace = FailoverPace() if now_ms is None else pace_of(incident, (answered or {}).values(), now_ms)
    if not is_open(incident, assignment, statuses, heard_at_ms) or pace.puts_off:
        return FailoverPlan((), None)
    if incident.kind is IncidentKind.GENERATION_LOST:
        return _above_lost_generation(incident, assignment, statuses)
    gone = {incident.instance} if incident.kind.of_instance else set()
    owner = statuses.get(incident.instance)
    restarting = bool(gone) and owner is not None and owner.replaces(incident.incarnation)
    alive = sorted(name for name in healthy if name not in gone and not _leaves(statuses.get(name)))
    load = Counter(task.active for task in assignment.tasks.values() if task.active in alive)
    decisions, tasks = [], dict(assignment.tasks)
    for task_id in _concerned(incident, assignment, restarting):
        tried = gone or _tried(task_id, incident, (answered or {}).values())
        candidates = [name for name in alive if name not in tried]
        decision = _held(task_id, incident, tried, candidates, pace)
        if decision is None and restarting and not _was_kept(task_id, incident, (answered or {}).values()):
            decision = _kept(task_id, incident, statuses, candidates)
        if decision is None:
            decision = _choose(task_id, assignment.tasks[task_id], statuses, candidates, load)
            tasks[task_id] = TaskAssignment(decision.to, assignment.tasks[task_id].standbys)
        if decision.to:
            load[decision.to] += 1
        decisions.append(decision)
    kept = [decision for decision in decisions if decision.action is Action.KEEP]
    if (kept or not gone) and not any(decision.to for decision in decisions if decision not in kept):
        # Where a task has no instance and none can take it, there is nothing to say yet: it is found again.
        return FailoverPlan(() if incident.kind is IncidentKind.TASKS_UNOWNED else tuple(decisions), None)
    without = {
        task_id: TaskAssignment(
            task.active, tuple(name for name in task.standbys if name not in gone and name != task.active)
        )
        for task_id, task in tasks.items()
    }
    reason = f"failover of {incident.instance or 'tasks'}: {incident.evidence}"
    bare = dataclasses.replace(assignment, tasks=without)
    filled = assign(bare, alive, num_standby_replicas, statuses, keep=gone)
    return FailoverPlan(
        tuple(decisions),
        assignment.next(
            {
                task_id: _filled_up(task, filled[task_id].standbys, num_standby_replicas)
                for task_id, task in bare.tasks.items()
            },
            reason,
            highest_generation(statuses.values()),
        ),
    )


def _leaves(status: InstanceStatus | None) -> bool:
    return status is not None and status.state is InstanceState.STOPPING


def _concerned(incident: Incident, assignment: Assignment, restarting: bool) -> tuple[TaskId, ...]:
    if incident.kind is IncidentKind.TASKS_UNOWNED:
        return tuple(task_id for task_id, task in assignment.tasks.items() if task.active is None)
    if not incident.kind.of_instance:
        return incident.tasks
    held = assignment.active_on(incident.instance)
    # What it got since is the new process's, to which nothing has happened.
    return tuple(task_id for task_id in held if task_id in incident.tasks) if restarting else held


def _held(
    task_id: TaskId, incident: Incident, tried: Collection[str], candidates: Collection[str], pace: FailoverPace
) -> Decision | None:
    """Whether a task stays where it is, because moving it cannot help."""
    if incident.kind not in (IncidentKind.TASK_FAILED, IncidentKind.TASK_STALLED):
        return None
    no_candidate = overloaded = False
    if incident.source_blocked:
        why = "no owner could read on before that transaction ends: look at the producer of its source"
    elif is_permanent(incident.error_kind):
        why = "any owner would fail at the same place"
    elif not candidates:
        verb = "failed" if incident.kind is IncidentKind.TASK_FAILED else "failed or stood still"
        why = f"{verb} on {', '.join(sorted(tried))}, and there is no other instance"
        no_candidate = True
    elif pace.exhausted:
        why, overloaded = str(pace), True
    else:
        return None
    evidence = f"{incident.evidence}; {why}"
    return Decision(
        task=task_id,
        action=Action.HOLD,
        to=None,
        evidence=evidence,
        no_candidate=no_candidate,
        overloaded=overloaded,
    )


def _kept(
    task_id: TaskId, incident: Incident, statuses: Mapping[str, InstanceStatus], candidates: Collection[str]
) -> Decision | None:
    """Whether a task waits for its own instance, which is being started again; None where a copy is quicker."""
    if has_quick_copy(task_id, candidates, statuses):
        return None
    evidence = (
        f"{incident.instance} is being started again and has its store; elsewhere: "
        f"{_evidence(task_id, candidates, statuses)}"
    )
    return Decision(task=task_id, action=Action.KEEP, to=incident.instance, evidence=evidence)


def _was_kept(task_id: TaskId, incident: Incident, answered: Iterable[IncidentRecord]) -> bool:
    """Whether it waited for its instance before, which has failed again since and has not been whole in between."""
    return any(
        record.incident.instance == incident.instance
        and record.incident.id != incident.id
        and record.resolved_at_ms is None
        and any(one.task == task_id and one.action is Action.KEEP for one in record.plan)
        for record in answered
    )


def _above_lost_generation(
    incident: Incident, assignment: Assignment, statuses: Mapping[str, InstanceStatus]
) -> FailoverPlan:
    """The same places in a generation that follows all that were carried out, so that every owner takes it over."""
    highest = highest_generation(statuses.values())
    owned = [task_id for task_id in incident.tasks if assignment.tasks[task_id].active]
    evidence = f"in a generation above {max(highest, assignment.generation)}"
    decisions = tuple(
        Decision(task=task_id, action=Action.RENEW, to=assignment.tasks[task_id].active, evidence=evidence)
        for task_id in owned
    )
    return FailoverPlan(decisions, assignment.next(assignment.tasks, incident.evidence, highest, owned))


def _filled_up(task: TaskAssignment, wanted: Sequence[str], replicas: int) -> TaskAssignment:
    """As many standbys as there should be; none is taken away. A task without an active gets none before it has one."""
    if task.active is None:
        return task
    more = [name for name in wanted if name not in task.holders]
    return TaskAssignment(task.active, (*task.standbys, *more[: max(0, replicas - len(task.standbys))]))


def _tried(task_id: TaskId, incident: Incident, answered: Iterable[IncidentRecord]) -> set[str]:
    """Where a task failed or stood still one after the other, each having got it by the answer to the one before."""
    if incident.kind is IncidentKind.TASKS_UNOWNED:
        return set()
    by_generation = {
        record.generation: record.incident
        for record in answered
        if record.incident.kind in (IncidentKind.TASK_FAILED, IncidentKind.TASK_STALLED)
        and task_id in record.incident.tasks
        and record.generation > record.incident.active_since  # held: it moved nothing
    }
    tried, link = {incident.instance}, incident
    while not link.committed and (before := by_generation.pop(link.active_since, None)) is not None:
        tried.add(before.instance)
        link = before
    return tried


def _choose(
    task_id: TaskId,
    task: TaskAssignment,
    statuses: Mapping[str, InstanceStatus],
    candidates: Collection[str],
    load: Mapping[str, int],
) -> Decision:
    copies = [name for name in candidates if standby_copy(statuses.get(name), task_id) is not None]
    evidence = _evidence(task_id, candidates, statuses)
    if copies:
        return Decision(
            task=task_id, action=Action.PROMOTE, to=rank_copies(task_id, copies, statuses, load)[0], evidence=evidence
        )
    if candidates:
        preferred = [name for name in task.standbys if name in candidates] or candidates
        return Decision(
            task=task_id, action=Action.REPLAY, to=rank_copies(task_id, preferred, statuses, load)[0], evidence=evidence
        )
    return Decision(task=task_id, action=Action.WAIT, to=None, evidence=evidence)


def _evidence(task_id: TaskId, candidates: Collection[str], statuses: Mapping[str, InstanceStatus]) -> str:
    known = (f"{name}: {_known(standby_copy(statuses.get(name), task_id))}" for name in candidates)
    return ", ".join(known) or "no healthy instance"


def _known(copy: TaskStatus | None) -> str:
    if copy is None:
        return "no copy"
    lag = "lag unknown" if copy.lag_records is None else f"lag {copy.lag_records}"
    certified = "" if copy.certificate.position is None else ", certified"
    return f"{lag}{certified}{'' if copy.warm else ', cold'}{'' if copy.error is None else ', with an error'}"
