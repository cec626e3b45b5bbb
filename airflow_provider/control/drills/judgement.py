"""What came out of a drill: pure functions of what the control topics hold after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.continuity import (
    check_chain,
    check_progress,
    check_resumed_exactly,
    check_resumption,
    source_offsets,
)
from airflow_provider.control.history.builder import drill_record
from airflow_provider.control.history.report import FailoverReport, known_recovery, recovery_of, report
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.history import HistoryOutcome, HistoryRecord, OutputCheck
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.records.status import FaultStatus
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.control.topics.commits import Commit
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError, StateError, StatefulStreamsError, StoreDivergedError


class NotMeasuredError(InstanceError):
    """A drill that broke nothing and measured nothing: it is skipped, neither passed nor failed."""


class NotMeasuredYetError(InstanceError):
    """A next owner has not committed, although its source may hold records: it may still."""


@dataclass(frozen=True, kw_only=True)
class JudgedDrill:
    """What the owners did, of a drill in which they did what they must; empty for others.

    Args:
        failover: what the failover cost; None where nothing had to be answered.
        progress: input records by task since the fault.
        restores: the copies that were restored, where nothing had to be answered.
    """

    failover: FailoverReport | None = None
    progress: Mapping[TaskId, int] = field(default_factory=dict)
    restores: tuple[TaskRestore, ...] = ()


def judge_drill(
    view: ControlView,
    fault: InjectedFault,
    max_rto_s: float | None,
    commits: Mapping[TaskId, Sequence[Commit]] | None = None,
) -> JudgedDrill:
    """Whether the fault broke nothing that it must not break.

    Args:
        view: as of now, when every task has its warm standbys again.
        commits: by task, what its changelog holds of them since the fault; None where it was not read.

    Raises:
        StateError: an owner did not go on at the last commit, one wrote after its successor, records were counted
            twice, or a task's source offset went back.
        NotMeasuredError: no task that was hit had input, or nothing had to be restored, or the clocks of hosts differ
            by so much that the RTO is not known.
        InstanceError: the failure has no record, a task with input has not committed, or it took longer than promised;
            there was a failure where none was to follow.
    """
    for task_id, found in sorted((commits or {}).items()):
        check_chain(task_id, found)
    if fault.spec.cause is None:
        return _judge_unanswered(view, fault)
    return _judge_answered(view, fault, max_rto_s, commits or {})


def _judge_answered(
    view: ControlView, fault: InjectedFault, max_rto_s: float | None, commits: Mapping[TaskId, Sequence[Commit]]
) -> JudgedDrill:
    record = answer_to(fault, view)
    if record is None:
        raise InstanceError(
            f"The failure of {fault.instance} has no record in {view.application_id!r}: it was not answered. "
            "Is the failover DAG unpaused, and does its watcher follow this application?"
        )
    expected, error_kind = fault.spec.error_kind, record.incident.error_kind
    if expected is not None and error_kind != expected:
        raise InstanceError(
            f"The drill's {fault.kind.value} was to be found as {expected}, and {record.incident.evidence!r} was found "
            f"({error_kind or record.incident.kind.value}): look at the log of {fault.instance}."
        )
    found = report(record, view)
    moved = {task: offset for task, offset in fault.source_offsets.items() if task in fault.tasks}
    resumed = (record.recovery or recovery_of(record, view)).resumed_offsets
    check_resumption(moved, resumed)
    check_resumed_exactly(commits, record.generation, resumed)
    progress = check_progress(fault.source_offsets, source_offsets(view))
    if found.unmeasured is not None:
        raise NotMeasuredError(
            f"Recovered, but {found.unmeasured}, so this drill is not passed. Have the hosts keep the same time (NTP), "
            "then drill again."
        )
    if found.rto_ms is None:
        raise _not_measured(fault, found)
    if max_rto_s is not None and found.rto_ms > 1000 * max_rto_s:
        raise InstanceError(
            f"Recovered, but later than promised: {found.rto_ms / 1000:.1f} s from the failure to the last task's "
            f"first commit, {max_rto_s:g} s are promised.\n{found}"
        )
    return JudgedDrill(failover=found, progress=progress)


def _judge_unanswered(view: ControlView, fault: InjectedFault) -> JudgedDrill:
    progress = check_progress(fault.source_offsets, source_offsets(view))
    since = [
        record.incident
        for record in view.incidents.values()
        if record.incident.generation >= fault.generation and record.decided_at_ms >= fault.injected_at_ms
    ]
    if since:
        lines = "; ".join(f"{incident.kind.value} of {incident.instance}: {incident.evidence}" for incident in since)
        raise InstanceError(
            f"A {fault.kind.value} on {fault.instance} was to disturb nothing, and failures followed ({lines}): look "
            "at that instance's log."
        )
    reported = reported_end(fault, view)
    if fault.spec.reports and reported is None:
        raise InstanceError(
            f"{fault.instance} does not report how the {fault.kind.value} ended: it was replaced, or another drill "
            "began on it. Drill again."
        )
    if reported is not None and reported.failure is not None:
        kind, message = reported.failure.kind, reported.failure.message
        raise (StateError if kind == StoreDivergedError.__name__ else InstanceError)(f"{kind}: {message}")
    restores = restores_after(fault, view)
    unmeasured = None if reported is None else reported.unmeasured
    if unmeasured is None and not any(restore.records for restore in restores):
        unmeasured = "its changelog holds nothing"
    if unmeasured is not None:
        raise NotMeasuredError(
            f"Nothing was measured of task {', '.join(map(str, fault.tasks))} ({unmeasured}), so this drill is not "
            "passed. Drill once the application has processed something."
        )
    return JudgedDrill(failover=None, progress=progress, restores=restores)


def judge_outputs(outputs: OutputCheck) -> None:
    """Every output that was committed is there, and none besides.

    Args:
        outputs: as they were counted; where they were not, nothing is said against them.

    Raises:
        StateError: some were deleted without a reason, are missing, or there are more than were committed.
    """
    lines = []
    for count in outputs.counts:
        if count.lost:
            lines.append(
                f"{count.topic} has lost {count.lost:,} offsets since the fault, and its settings ({count.settings}) "
                "do not explain it: a person or a program deleted them, or a broker lost them. Find out which; what of "
                "the output is gone can only be had from a copy, or by processing the source again."
            )
            continue
        counted = f"{count.topic} holds {count.found:,} records since the fault, and the commits stand for"
        if count.missing:
            lines.append(
                f"{counted} {count.committed:,}: {count.missing:,} are missing. Keep the topic, and look whether its "
                "partitions lost records and at the instances' logs."
            )
        elif count.doubled:
            lines.append(
                f"{counted} {count.committed:,}: {count.doubled:,} are doubled, or another program writes there. Look "
                "for keys that stand there twice; where other programs do write there, drill with shared_sink."
            )
    if lines:
        raise StateError(" ".join(lines))


def reported_end(fault: InjectedFault, view: ControlView) -> FaultStatus | None:
    """What the instance reports of a fault that lasted for a while; None where it does not, or not any more."""
    status = view.statuses.get(fault.instance)
    found = None if status is None else status.fault
    return found if fault.spec.reports and found is not None and (found.id, found.over) == (fault.id, True) else None


def restores_after(fault: InjectedFault, view: ControlView) -> tuple[TaskRestore, ...]:
    """What was restored of the copies that were hit, where nothing had to be answered."""
    if fault.spec.reports:
        reported = reported_end(fault, view)
        return () if reported is None else reported.restores
    status = view.statuses.get(fault.instance)
    copies = [status.task(task_id) for task_id in fault.tasks] if status is not None else []
    return tuple(copy.restore_on(fault.instance) for copy in copies if copy is not None and copy.fault == fault.id)


def judged_record(
    view: ControlView,
    fault: InjectedFault,
    by: str,
    error: StatefulStreamsError | None,
    max_rto_s: float | None,
    ended_at_ms: int,
    outputs: OutputCheck | None = None,
) -> HistoryRecord:
    """What the history keeps of a drill; one in which nothing was measured is skipped, not failed."""
    outcome = HistoryOutcome.PASSED
    if error is not None:
        outcome = HistoryOutcome.SKIPPED if isinstance(error, NotMeasuredError) else HistoryOutcome.FAILED
    answered = fault.spec.cause is not None
    record = answer_to(fault, view) if answered else None
    return drill_record(
        view.application_id,
        fault,
        by,
        outcome=outcome,
        reason=None if error is None else str(error),
        ended_at_ms=ended_at_ms,
        record=record,
        recovery=known_recovery(record, view) if record else None,
        restores=() if answered else restores_after(fault, view),
        slo_rto_s=max_rto_s,
        outputs=outputs,
    )


def answer_to(fault: InjectedFault, view: ControlView) -> IncidentRecord | None:
    """What was done about a fault; None where nothing was.

    A process that lives on may have had incidents before, and others after: of those that were found since, the first.
    """
    records = [
        record
        for record in view.incidents.values()
        if (record.incident.instance, record.incident.incarnation) == (fault.instance, fault.incarnation)
        and record.incident.generation >= fault.generation
    ]
    return min(records, key=lambda record: record.decided_at_ms, default=None)


def _not_measured(fault: InjectedFault, found: FailoverReport) -> InstanceError:
    idle = set(found.without_input)
    if open_tasks := [str(task) for task in fault.tasks if task not in idle]:
        return NotMeasuredYetError(
            f"Not measured: of {fault.instance}'s tasks, one of {', '.join(open_tasks)} has not committed since the "
            "failure although its source may hold records, or was moved again before it did. So this drill is not "
            "passed. Look at their status, then drill again."
        )
    return NotMeasuredError(
        f"Nothing was measured: none of {fault.instance}'s tasks has had input since its failure, so this drill is not "
        "passed. Drill while the source has records."
    )
