"""Whether an incident is to be answered, and how: pure functions of a view and of what its finder knew."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.decide import FailoverPlan, decide
from airflow_provider.control.failover.detection import is_open
from airflow_provider.control.failover.pace import pace_of
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import WATCHER, Action, Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceState, TaskState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError


@dataclass(frozen=True, kw_only=True)
class IncidentEvent:
    """An incident, and what its finder knew. Crosses from a triggerer to a worker as plain values.

    Args:
        detected_at_ms: epoch ms at which it was found.
        silent: the instances that sent no heartbeat for longer than allowed; of each, when the last one came, epoch ms
            by the broker's clock, 0 where there was none.
        failed_at_ms: when the task failed or stood still (`task_failed_at_ms`); where that is not reported, of the
            instance's heartbeat by which it was found, or of the last one where none came any more, epoch ms by the
            broker's clock; None where that is not known.
    """

    incident: Incident
    application_id: str
    kafka_conn_id: str
    detected_at_ms: int
    silent: dict[str, int] = field(default_factory=dict)
    instance_timeout_s: float = Timeouts.instance_s
    start_timeout_s: float = Timeouts.start_s
    stall_timeout_s: float = Timeouts.stall_s
    num_standby_replicas: int = 1
    failed_at_ms: int | None = None

    @property
    def timeouts(self) -> Timeouts:
        """How long the finder lets an instance be silent, and a task stand still."""
        return Timeouts(self.instance_timeout_s, self.start_timeout_s, self.stall_timeout_s)


log = logging.getLogger(__name__)

Publish = Callable[[Assignment | None, IncidentRecord], None]
"""Makes an answer known: the assignment that it changes to, if it does, and what is kept of the incident."""


@dataclass(frozen=True, kw_only=True)
class IncidentFinder:
    """Who answers, and what is known besides the control topics.

    Args:
        answered_by: the run or the watcher that decides: a try of it that comes later finds its own answer.
        by_hand: whether a person started it. Who does that has found something, or changed it: what is still wrong is
            decided about again.
        events: what the finder knew; none where the incidents were found in the same look.
    """

    answered_by: str
    timeouts: Timeouts
    num_standby_replicas: int
    by_hand: bool
    events: tuple[IncidentEvent, ...] = ()
    dag_id: str | None = None

    def take_up(self, known: IncidentRecord | None) -> IncidentAnswer | None:
        """See to what a watcher has answered from now on; None where there is nothing of that kind to take up."""
        if known is None or known.taken_up or known.resolved_at_ms is not None or self.answered_by.startswith(WATCHER):
            return None
        record = dataclasses.replace(known, answered_by=self.answered_by, answered_by_dag=self.dag_id)
        return IncidentAnswer(line=f"Incident {known.incident.id} was answered by {known.answered_by}", record=record)

    def gone(self, view: ControlView) -> frozenset[str]:
        """The instances that are not to be relied on: none that sent a heartbeat since it was found silent."""
        ended = {event.incident.instance for event in self.events if event.incident.kind.of_instance}
        silent = {
            name
            for event in self.events
            for name, heard_at_ms in event.silent.items()
            if view.heard_at_ms.get(name, 0) == heard_at_ms
        }
        return frozenset(ended | silent)

    def detected_at_ms(self, incident: Incident) -> int | None:
        """When an incident was found; None when no finder said so."""
        return next((event.detected_at_ms for event in self.events if event.incident.id == incident.id), None)

    def failed_at_ms(self, incident: Incident, view: ControlView) -> int | None:
        """When it failed; None where that is not known, because its instance lives on and does not report it."""
        known = (event.failed_at_ms for event in self.events if event.incident.id == incident.id)
        if (failed_at_ms := next(known, None)) is not None:
            return failed_at_ms
        if incident.kind.of_instance:
            return view.last_heard_ms(incident.instance, incident.incarnation)
        return task_failed_at_ms(incident, view)


@dataclass(frozen=True, kw_only=True)
class IncidentAnswer:
    """What becomes of an incident.

    Args:
        record: what is kept of it; None where there is nothing to answer.
        assignment: the generation to publish; None when nothing changes.
        new: whether it has yet to be published.
    """

    line: str
    record: IncidentRecord | None = None
    assignment: Assignment | None = None
    new: bool = True


def answer_incident(
    view: ControlView, incident: Incident, finder: IncidentFinder, clock_ms: Callable[[], int]
) -> IncidentAnswer:
    """Who takes the tasks over, unless that was answered before: a watcher's answer is taken up then.

    Raises:
        AssignmentError: the assignment topic holds none that could be changed.
    """
    answer = _answer(view, incident, finder, clock_ms)
    if answer.record is not None and answer.new:
        return answer
    return finder.take_up(view.incidents.get(incident.id)) or answer


def _answer(
    view: ControlView, incident: Incident, finder: IncidentFinder, clock_ms: Callable[[], int]
) -> IncidentAnswer:
    known = view.incidents.get(incident.id)
    if view.assignment is None:
        raise AssignmentError(
            f"{view.application_id!r} has no assignment that a failover could change, and an incident: "
            f"{incident.evidence}. Assign its tasks again with AssignTasksOperator, as the deploy DAG does, "
            "or with 'stateful-streams assign'."
        )
    if known is not None and known.answered_by == finder.answered_by:
        return IncidentAnswer(line="an earlier try answered it", record=known, new=False)
    gone = finder.gone(view)
    healthy = [name for name in view.healthy(finder.timeouts) if name not in gone]
    # One that starts cannot take over yet, but it is better than none.
    healthy = [n for n in healthy if view.statuses[n].state is InstanceState.RUNNING] or healthy
    now_ms, replicas = clock_ms(), finder.num_standby_replicas
    if known is not None and not finder.by_hand and not is_due(incident, view, healthy, replicas, now_ms=now_ms):
        return IncidentAnswer(line=f"Incident {incident.id} was answered by {known.answered_by} already")
    plan = _plan(incident, view, view.assignment, healthy, replicas, None if finder.by_hand else now_ms)
    if plan.assignment is None and not plan.decisions:
        return IncidentAnswer(line=f"Incident {incident.id} is not open any more, or too soon after another failover")
    if known is not None and known.resolved_at_ms is None and plan.assignment is None and plan.decisions == known.plan:
        line = f"Incident {incident.id} was answered by {known.answered_by}, and nothing has changed since"
        return IncidentAnswer(line=line, record=known, new=False)
    record = IncidentRecord(
        incident=incident,
        answered_by=finder.answered_by,
        answered_by_dag=finder.dag_id,
        detected_at_ms=finder.detected_at_ms(incident),
        decided_at_ms=now_ms,
        generation=(plan.assignment or view.assignment).generation,
        plan=plan.decisions,
        no_candidate=plan.no_candidate,
        failed_at_ms=finder.failed_at_ms(incident, view),
    )
    line = f"Incident {incident.id} ({incident.evidence}): {'; '.join(record.decisions) or 'no task'}"
    return IncidentAnswer(line=line, record=record, assignment=plan.assignment)


def answer_incidents(
    view: ControlView,
    incidents: Iterable[Incident],
    finder: IncidentFinder,
    publish: Publish,
    clock_ms: Callable[[], int],
) -> list[tuple[IncidentRecord, Assignment]]:
    """Answer one incident after the other, each on what the answers before it left, and publish what is new.

    Args:
        view: the newest; an answer changes it.

    Returns:
        What is kept of each incident that this finder answered, now or in an earlier try, and the assignment after it.

    Raises:
        AssignmentError: the assignment topic holds none that could be changed.
        FencedError: a newer publisher exists.
    """
    answered = []
    for incident in incidents:
        answer = answer_incident(view, incident, finder, clock_ms)
        if answer.new:
            log.info("%s", answer.line)
        assignment = answer.assignment or view.assignment
        if answer.record is None or assignment is None:
            continue
        if answer.new:
            publish(answer.assignment, answer.record)
            view.assignment = assignment
            view.incidents[incident.id] = answer.record
        answered.append((answer.record, assignment))
    return answered


def wrong_now(view: ControlView, found: Iterable[Incident], instance: str | None) -> tuple[Incident, ...]:
    """What a person who starts a failover wants answered: what is wrong, and what no run has taken up yet.

    Args:
        instance: only this one, and everything is moved off it where nothing is wrong with it; None for all.
    """
    by_id = {record.incident.id: record.incident for record in view.unresolved_incidents if not record.taken_up}
    by_id |= {incident.id: incident for incident in found}
    if not instance:
        return tuple(by_id.values())
    named = tuple(incident for incident in by_id.values() if incident.instance == instance)
    if named or view.assignment is None or instance not in view.assignment.instances:
        return named
    status = view.statuses.get(instance)
    return (
        Incident(
            application_id=view.application_id,
            kind=IncidentKind.MANUAL,
            instance=instance,
            incarnation=status.incarnation if status else 0,
            tasks=view.assignment.active_on(instance),
            evidence="nothing is wrong with it: moved by hand",
        ),
    )


def is_due(
    incident: Incident, view: ControlView, candidates: Collection[str], num_standby_replicas: int = 1, *, now_ms: int
) -> bool:
    """Whether a run should decide about an incident.

    It is answered once, unless it was held and its task has worked since.

    Only a task that is held because there was no other instance or because failovers followed each other too fast, or
    that waits for its own one, is decided about again, as soon as there is an instance that would get it. After another
    failover of a task that stood still it waits for its turn.

    Args:
        candidates: the instances that live and may take a task over.
    """
    if pace_of(incident, view.incidents.values(), now_ms).puts_off:
        return False
    known = view.incidents.get(incident.id)
    if known is None or (known.holds and known.resolved_at_ms is not None):  # it worked in between, and fails anew
        return True
    waits = known.no_candidate or any(one.action is Action.KEEP or one.overloaded for one in known.plan)
    if not waits or view.assignment is None:
        return False
    return _plan(incident, view, view.assignment, candidates, num_standby_replicas, now_ms).assignment is not None


def ended_holds(view: ControlView) -> list[IncidentRecord]:
    """The open incidents that moved nothing, and whose tasks work again: nothing of them is left to repair.

    A person has corrected what any owner would have failed at, or the task went on by itself.
    """
    assignment = view.assignment
    return [
        record
        for record in view.unresolved_incidents
        if record.holds
        and assignment is not None
        and all(_works(view, assignment, task_id, record.incident) for task_id in record.incident.tasks)
    ]


def _works(view: ControlView, assignment: Assignment, task_id: TaskId, incident: Incident) -> bool:
    """Whether a task has committed since it was held, or had nothing to; true of one that the job has no more."""
    if (given := assignment.tasks.get(task_id)) is None:
        return True
    status = view.statuses.get(given.active or "")
    if status is None or status.paused or not status.state.alive:
        return False
    task = status.active_task(task_id, given.active_since)
    if task is None or task.state is not TaskState.RUNNING or task.error is not None:
        return False
    if task.source.stalled_s > Timeouts.stall_s:
        return False
    if task.source.lag_records == 0 and not task.source.uncommitted_records:
        return task.owned_at_ms is not None  # what it stood still before may be gone, too
    if is_open(incident, assignment, view.statuses, view.heard_at_ms):
        return False
    return task.first_commit_at_ms is not None


def _plan(
    incident: Incident,
    view: ControlView,
    assignment: Assignment,
    healthy: Collection[str],
    replicas: int,
    now_ms: int | None,
) -> FailoverPlan:
    heard, answered = view.heard_at_ms, view.incidents
    return decide(
        incident, assignment, view.statuses, healthy, replicas, answered=answered, heard_at_ms=heard, now_ms=now_ms
    )


def task_failed_at_ms(incident: Incident, view: ControlView) -> int | None:
    """When the task of an incident failed, or committed last before it stood still.

    The instance lives on: its newest heartbeat may come long after that, and says how long ago it was.

    Returns:
        Epoch ms by the broker's clock; None where the incident is of no task, or its instance does not report it, as
        one of an older version, or one that was replaced.
    """
    status, heard_at_ms = view.statuses.get(incident.instance), view.heard_at_ms.get(incident.instance)
    if status is None or heard_at_ms is None or status.incarnation != incident.incarnation or not incident.tasks:
        return None
    task = status.task(incident.tasks[0])
    if task is None:
        return None
    since_s: float | None = None
    if incident.kind is IncidentKind.TASK_FAILED:
        since_s = task.failed_s
    elif incident.kind is IncidentKind.TASK_STALLED:
        since_s = task.source.stalled_s or None
    return None if since_s is None else heard_at_ms - round(1000 * since_s)


@dataclass(frozen=True, kw_only=True)
class FailoverAnswer:
    """The answer to one incident. Crosses between Airflow tasks as plain values.

    Args:
        moved: by task, its active instance now; None while it has none.
        failed_at_ms: when the instance sent its last heartbeat, epoch ms by the broker's clock; None when unknown.
        detected_at_ms: when a watcher saw it, epoch ms; None when none did.
        decided_at_ms: when the decision was made, epoch ms.
        took_ms: how long the run took for all of its incidents.
    """

    application_id: str
    instance: str
    incident_id: str
    kind: IncidentKind
    evidence: str
    tasks: tuple[TaskId, ...]
    decisions: tuple[str, ...]
    moved: dict[TaskId, str | None]
    generation: int
    failed_at_ms: int | None
    detected_at_ms: int | None
    decided_at_ms: int
    took_ms: int = 0

    @property
    def replace(self) -> bool:
        """Whether the instance is gone and needs a replacement."""
        return self.kind.needs_replacement

    def line(self) -> str:
        """What failed, what became of its tasks, and how long that took: to tell one answer from another."""
        stays = None if self.kind.of_instance else self.instance
        to = Counter(
            "wait" if name is None else f"stay on {name}" if name == stays else f"to {name}"
            for name in self.moved.values()
        )
        tasks = ", ".join(f"{number} {where}" for where, number in to.items()) or "no task"
        began_ms = self.failed_at_ms or self.detected_at_ms
        took = "" if began_ms is None else f", decided after {(self.decided_at_ms - began_ms) / 1000:.1f} s"
        return f"{self.instance or 'all'} {self.kind.value}: {tasks}{took}"

    @classmethod
    def of(cls, record: IncidentRecord, assignment: Assignment, took_ms: int = 0) -> FailoverAnswer:
        """What a record and the assignment that answers its incident say."""
        incident = record.incident
        return cls(
            application_id=incident.application_id,
            instance=incident.instance,
            incident_id=incident.id,
            kind=incident.kind,
            evidence=incident.evidence,
            tasks=incident.tasks,
            decisions=record.decisions,
            # A task that the job has no more has none.
            moved={
                task_id: assignment.tasks[task_id].active for task_id in incident.tasks if task_id in assignment.tasks
            },
            generation=record.generation,
            failed_at_ms=record.failed_at_ms,
            detected_at_ms=record.detected_at_ms,
            decided_at_ms=record.decided_at_ms,
            took_ms=took_ms,
        )
