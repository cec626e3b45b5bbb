"""Makes the records of the history from what the operators know, and notes them.

What a task of a run notes has the same id in all of its tries, so that a later one overwrites it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.report import clock_gap, known_recovery
from airflow_provider.control.records.drill_fault import DrillKind, InjectedFault
from airflow_provider.control.records.history import (
    HistoryKind,
    HistoryOutcome,
    HistoryRecord,
    OutputCheck,
    Rpo,
    RtoParts,
)
from airflow_provider.control.records.incident import IncidentKind, IncidentRecord, Recovery
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.control.topics.view import ControlView


def failover_record(
    record: IncidentRecord, recovery: Recovery | None = None, slo_rto_s: float | None = None
) -> HistoryRecord:
    """An incident that was answered: open until it is resolved."""
    incident = record.incident
    # A person may move everything off the same process again and again: each answer is another event.
    id_ = f"{incident.id}/{record.generation}" if incident.kind is IncidentKind.MANUAL else incident.id
    rto = _parts(record, recovery)
    return HistoryRecord(
        application_id=incident.application_id,
        kind=HistoryKind.FAILOVER,
        id=id_,
        cause=incident.kind.value,
        at_ms=_began_ms(record) or record.decided_at_ms,
        ended_at_ms=record.resolved_at_ms,
        by=record.answered_by,
        outcome=HistoryOutcome.OPEN if record.resolved_at_ms is None else HistoryOutcome.PASSED,
        reason=clock_gap(rto, record),
        instances=(incident.instance,) if incident.instance else (),
        tasks=incident.tasks,
        decisions=record.plan,
        evidence=incident.evidence,
        rto=rto,
        rpo=Rpo(lost_records=recovery.lost_records if recovery else None),
        restores=recovery.restores if recovery else (),
        slo_rto_s=slo_rto_s,
        by_later_answer=recovery is not None and recovery.by_later_answer,
    )


def drill_record(
    application_id: str,
    fault: InjectedFault,
    by: str,
    *,
    outcome: HistoryOutcome = HistoryOutcome.OPEN,
    reason: str | None = None,
    ended_at_ms: int | None = None,
    record: IncidentRecord | None = None,
    recovery: Recovery | None = None,
    restores: Sequence[TaskRestore] = (),
    slo_rto_s: float | None = None,
    outputs: OutputCheck | None = None,
) -> HistoryRecord:
    """A failure that was rehearsed.

    Args:
        ended_at_ms: when it was judged, epoch ms; None while it is open.
        record: of the failover that answered the fault; None where there is none yet.
    """
    return HistoryRecord(
        application_id=application_id,
        kind=HistoryKind.DRILL,
        id=fault.id,
        cause=fault.kind.value,
        at_ms=fault.injected_at_ms,
        ended_at_ms=ended_at_ms,
        by=by,
        outcome=outcome,
        reason=reason,
        instances=tuple(fault.processes),
        tasks=fault.tasks,
        decisions=record.plan if record else (),
        evidence=record.incident.evidence if record else "",
        rto=_parts(record, recovery) if record else RtoParts(),
        rpo=_rpo_of_drill(fault, recovery) if recovery else Rpo(),
        restores=recovery.restores if recovery else tuple(restores),
        slo_rto_s=slo_rto_s,
        predicted_rto_ms=fault.predicted_rto_ms,
        outputs=outputs,
    )


def skipped_drill_record(
    application_id: str, id: str, by: str, kind: DrillKind, *, reason: str, at_ms: int
) -> HistoryRecord:
    """A drill that did not begin. Nothing was measured, so it is no rehearsal, and no prediction rests on it."""
    return HistoryRecord(
        application_id=application_id,
        kind=HistoryKind.DRILL,
        id=id,
        cause=kind.value,
        at_ms=at_ms,
        ended_at_ms=at_ms,
        by=by,
        outcome=HistoryOutcome.SKIPPED,
        reason=" ".join(reason.split()),
    )


def restore_record(
    application_id: str,
    id: str,
    by: str,
    instance: str,
    tasks: Sequence[TaskId],
    *,
    ended_at_ms: int,
    restores: Sequence[TaskRestore] = (),
    reason: str | None = None,
) -> HistoryRecord:
    """A replay of changelogs that was asked for."""
    took_s = max((restore.took_s for restore in restores), default=0.0)
    return HistoryRecord(
        application_id=application_id,
        kind=HistoryKind.RESTORE,
        id=id,
        cause="replay",
        at_ms=ended_at_ms - round(1000 * took_s),
        ended_at_ms=ended_at_ms,
        by=by,
        outcome=HistoryOutcome.PASSED if reason is None else HistoryOutcome.FAILED,
        reason=reason,
        instances=(instance,),
        tasks=tuple(tasks),
        restores=tuple(restores),
    )


def restores_of(
    instance: str, records: Mapping[str, int], sizes: Mapping[str, int], seconds: Mapping[str, float]
) -> tuple[TaskRestore, ...]:
    """The restores that `conditions.TasksReplayed` found."""
    return tuple(
        TaskRestore(task=TaskId.parse(task), instance=instance, records=count, bytes=sizes[task], took_s=seconds[task])
        for task, count in sorted(records.items())
    )


def upgrade_record(
    application_id: str, id: str, by: str, instance: str, changed: Sequence[str], at_ms: int
) -> HistoryRecord:
    """An instance that is restarted because it was deployed otherwise: open until it runs again."""
    return HistoryRecord(
        application_id=application_id,
        kind=HistoryKind.UPGRADE,
        id=id,
        cause="changed",
        at_ms=at_ms,
        by=by,
        instances=(instance,),
        evidence=f"deployed otherwise: {', '.join(changed)}",
    )


def _began_ms(record: IncidentRecord) -> int | None:
    return record.failed_at_ms or record.detected_at_ms


def _parts(record: IncidentRecord, recovery: Recovery | None) -> RtoParts:
    owned = recovery.owned_at_ms if recovery else None
    committed = recovery.first_commit_at_ms if recovery else None
    return RtoParts(
        detected_ms=_between(record.failed_at_ms, record.detected_at_ms),
        decided_ms=_between(record.detected_at_ms, record.decided_at_ms),
        owned_ms=_between(record.decided_at_ms, owned),
        first_output_ms=_between(owned, committed),
        total_ms=_between(_began_ms(record), committed),
    )


def _between(start_ms: int | None, end_ms: int | None) -> int | None:
    # An instance that never sent a heartbeat has 0 as the time of its last one.
    return end_ms - start_ms if start_ms and end_ms is not None else None


def _rpo_of_drill(fault: InjectedFault, recovery: Recovery) -> Rpo:
    """Of the tasks that were moved; what was committed after the last heartbeat can only make it better.

    Where a task's owner had committed nothing, there is nothing that its next owner could process twice.
    """
    moved = {task: offset for task, offset in fault.source_offsets.items() if task in fault.tasks}
    known = moved.keys() <= recovery.resumed_offsets.keys()
    doubled = sum(max(0, offset - recovery.resumed_offsets[task]) for task, offset in moved.items()) if known else None
    return Rpo(lost_records=recovery.lost_records, doubled_records=doubled if moved else None)


_WRITE_S: Final = 2.0


def note_history(
    write: Callable[..., None], application_id: str, records: Iterable[HistoryRecord], *, warn: Callable[[str], object]
) -> bool:
    """Write into the history what was done, and say whether it is stored; where not, that is a warning, soon."""
    try:
        write(application_id, *records, timeout_s=_WRITE_S)
    except Exception as error:  # whatever it is: what was done is done
        warn(f"Not in the history of {application_id}: {type(error).__name__}: {error}")
        return False
    return True


def resolve_incident(
    record: IncidentRecord,
    view: ControlView,
    *,
    at_ms: int,
    note: Callable[[HistoryRecord], bool],
    write: Callable[[IncidentRecord], None],
    slo_rto_s: float | None = None,
) -> IncidentRecord:
    """Mark an incident resolved and complete its record in the history; returns what is kept of it.

    One that is resolved already keeps when that was; its history gets what is known of it now.

    Args:
        at_ms: when every task had its standbys again, epoch ms.
        note: stores a record in the history; false where it could not. The incident is then remembered the longer.
        write: stores what is kept of the incident; not called where nothing changed.
    """
    found = record
    if record.resolved_at_ms is None:
        record = dataclasses.replace(record, resolved_at_ms=at_ms, recovery=known_recovery(record, view))
    # First the history: what says that it is there can be forgotten.
    if note(failover_record(record, known_recovery(record, view), slo_rto_s)):
        record = dataclasses.replace(record, in_history=True)
    if record != found:
        write(record)
    return record
