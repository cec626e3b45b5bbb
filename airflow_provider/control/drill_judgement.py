"""What came out of a drill: pure functions of what the control topics hold after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drill import check_progress, check_resumption, source_offsets
from airflow_provider.control.history_builder import drill_record
from airflow_provider.control.history_record import HistoryOutcome, HistoryRecord
from airflow_provider.control.incident import IncidentRecord
from airflow_provider.control.injected_fault import InjectedFault
from airflow_provider.control.report import FailoverReport, known_recovery, recovery_of, report
from airflow_provider.control.view import ControlView
from airflow_provider.errors import InstanceError, StatefulStreamsError

__all__ = ["JudgedDrill", "answer_to", "judge_drill", "judged_record"]


@dataclass(frozen=True, kw_only=True)
class JudgedDrill:
    """A drill that is passed.

    Args:
        failover: what the failover cost.
        progress: input records by task since the fault.
    """

    failover: FailoverReport
    progress: Mapping[TaskId, int]


def judge_drill(view: ControlView, fault: InjectedFault, max_rto_s: float | None) -> JudgedDrill:
    """Whether the fault broke nothing that it must not break.

    Args:
        view: as of now, when every task has its warm standbys again.
        fault: what was injected.
        max_rto_s: seconds that the failover may have taken; None sets no limit.

    Raises:
        StateError: an owner went on before the last commit that was reported, or a task's source offset went back.
        InstanceError: the failure has no record, nothing was measured, or it took longer than promised.
    """
    record = answer_to(fault, view)
    if record is None:
        raise InstanceError(
            f"The failure of {fault.instance} has no record in {view.application_id!r}: it was not answered. "
            " Is the failover DAG unpaused, and does its watcher follow this application?"
        )
    found = report(record, view)
    moved = {task: offset for task, offset in fault.source_offsets.items() if task in fault.tasks}
    check_resumption(moved, (record.recovery or recovery_of(record, view)).resumed_offsets)
    progress = check_progress(fault.source_offsets, source_offsets(view))
    if found.rto_ms is None:
        raise InstanceError(_not_measured(fault, found))
    if max_rto_s is not None and found.rto_ms > 1000 * max_rto_s:
        raise InstanceError(
            f"Recovered, but later than promised: {found.rto_ms / 1000:.1f} s from the failure to the last task's "
            f"first commit, {max_rto_s:g} s are promised.\n{found}"
        )
    return JudgedDrill(failover=found, progress=progress)


def judged_record(
    view: ControlView,
    fault: InjectedFault,
    by: str,
    error: StatefulStreamsError | None,
    max_rto_s: float | None,
    ended_at_ms: int,
) -> HistoryRecord:
    """What the history keeps of a drill; one in which no task had input is skipped, not failed.

    Args:
        view: as of now.
        fault: what was injected.
        by: the run.
        error: why it is not passed; None where it is.
        max_rto_s: the promised RTO in seconds; None where none is.
        ended_at_ms: when it was judged, epoch ms.
    """
    record = answer_to(fault, view)
    recovery = known_recovery(record, view) if record else None
    idle = recovery is not None and set(fault.tasks) <= set(recovery.without_input)
    outcome = HistoryOutcome.PASSED
    if error is not None:
        outcome = HistoryOutcome.SKIPPED if idle and isinstance(error, InstanceError) else HistoryOutcome.FAILED
    return drill_record(
        view.application_id,
        fault,
        by,
        outcome=outcome,
        reason=None if error is None else str(error),
        ended_at_ms=ended_at_ms,
        record=record,
        recovery=recovery,
        slo_rto_s=max_rto_s,
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


def _not_measured(fault: InjectedFault, found: FailoverReport) -> str:
    idle = set(found.without_input)
    if open_tasks := [str(task) for task in fault.tasks if task not in idle]:
        return (
            f"Not measured: of {fault.instance}'s tasks, one of {', '.join(open_tasks)} has not committed since the "
            "failure although its source may hold records, or was moved again before it did. So this drill is not "
            "passed. Look at their status, then drill again."
        )
    return (
        f"Nothing was measured: none of {fault.instance}'s tasks has had input since its failure, so this drill is not "
        "passed. Drill while the source has records."
    )
