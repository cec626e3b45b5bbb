"""What a failover cost, and what an application went through as a table for people: pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider.common.table import number, seconds, table_lines, utc_cell
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import TaskAssignment
from airflow_provider.control.records.history import CLOCKS_AGREE_MS, HistoryRecord, RtoParts
from airflow_provider.control.records.incident import IncidentRecord, NotedRecovery, Recovery
from airflow_provider.control.records.status import InstanceStatus, Role, TaskStatus
from airflow_provider.control.topics.view import ControlView

_IDLE_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class FailoverReport:
    """One failover, in epoch ms; None where nothing is known.

    The failed instance's end is by the broker's clock, the rest by the clocks of the instances and of Airflow:
    differences are as exact as those clocks agree. That of an instance whose clock is known to be ahead of the
    broker's is set right.

    Args:
        failed_at_ms: when the instance sent its last heartbeat, its end was reported, or the task failed.
        owned_at_ms: when the last of the moved tasks was owned by its new instance.
        first_commit_at_ms: when the last of the moved tasks that had input had committed again.
        restored_records: changelog records that the new owners replayed before they went on.
        rto_ms: from the failure to the first commit of the last of the tasks that had input.
        unmeasured: why there is no RTO although all is committed: the clocks of hosts differ; None otherwise.
        without_input: the moved tasks of which nothing was measured, because they had no input since.
    """

    incident_id: str
    evidence: str
    decisions: tuple[str, ...]
    generation: int
    failed_at_ms: int | None
    detected_at_ms: int | None
    decided_at_ms: int
    owned_at_ms: int | None
    first_commit_at_ms: int | None
    resolved_at_ms: int | None
    restored_records: int
    rto_ms: int | None
    unmeasured: str | None = None
    without_input: tuple[TaskId, ...] = ()

    def line(self) -> str:
        """How long it took and what it replayed: to tell one failover from another."""
        rto = "no output yet" if self.rto_ms is None else f"output again after {self.rto_ms / 1000:.1f} s"
        return f"{rto}, {self.restored_records} records replayed"

    def __str__(self) -> str:
        began = self.failed_at_ms or self.detected_at_ms or self.decided_at_ms
        steps = {
            "detected": self.detected_at_ms,
            "decided": self.decided_at_ms,
            "owned": self.owned_at_ms,
            "first committed output": self.first_commit_at_ms,
            "redundancy restored": self.resolved_at_ms,
        }
        lines = [f"  {self.evidence}", *(f"  {line}" for line in self.decisions)]
        lines += [
            f"  {name:<24}{'-' if at is None else f'{(at - began) / 1000:+8.2f} s'}" for name, at in steps.items()
        ]
        lines.append(f"  {'records replayed':<24}{self.restored_records:>8}")
        lines.append(f"  {'RTO':<24}{'-' if self.rto_ms is None else f'{self.rto_ms / 1000:8.2f} s'}")
        if self.unmeasured is not None:
            lines.append(f"  {self.unmeasured}")
        if self.without_input:
            lines.append(f"  not measured, because they had no input: {', '.join(map(str, self.without_input))}")
        return "\n".join(lines)


def report(record: IncidentRecord, view: ControlView) -> FailoverReport:
    """What became of the incident's tasks: as noted when it was resolved, or as of now where that lacks a commit.

    A task that was moved again since, unless a watcher noted the recovery before, or that has input and has not
    committed any since, leaves the first commit open. One that has had no input since is named, and the others are
    measured.
    """
    recovery = known_recovery(record, view)
    began = record.failed_at_ms or record.detected_at_ms
    first_commit = recovery.first_commit_at_ms
    total_ms = first_commit - began if first_commit is not None and began is not None else None
    rto = RtoParts(total_ms=total_ms)
    return FailoverReport(
        incident_id=record.incident.id,
        evidence=record.incident.evidence,
        decisions=record.decisions,
        generation=record.generation,
        failed_at_ms=record.failed_at_ms,
        detected_at_ms=record.detected_at_ms,
        decided_at_ms=record.decided_at_ms,
        owned_at_ms=recovery.owned_at_ms,
        first_commit_at_ms=first_commit,
        resolved_at_ms=record.resolved_at_ms,
        restored_records=recovery.restored_records,
        rto_ms=rto.total_ms,
        unmeasured=clock_gap(rto, record),
        without_input=recovery.without_input,
    )


def known_recovery(record: IncidentRecord, view: ControlView) -> Recovery:
    """What the owners of the incident's tasks did: as noted, or as of now where nothing, or no commit, was noted."""
    noted = record.recovery
    if noted is not None and noted.first_commit_at_ms is not None:
        return noted
    seen = _seen(record, view)
    return recovery_of(record, view) if seen is None else seen.recovery


def new_recoveries(view: ControlView, watched_since_ms: int) -> list[NotedRecovery]:
    """Those of open incidents whose tasks have committed again, as long as nothing has noted them.

    Noted as soon as it is so, a recovery is known however the tasks move later. Where no task has input, that is noted
    after some seconds: the next record may come in hours, and is none of the failover's. Whatever brought it counts:
    where an answer had nobody to give a task to, or the next owner failed too before it committed, that is a later
    answer. A watcher that came after the incident was answered cannot tell that from a move for another reason.

    Args:
        watched_since_ms: since when the watcher that asks has followed the control topics, epoch ms.
    """
    found = []
    for record in view.unresolved_incidents:
        if _seen(record, view) is None:
            there = record.decided_at_ms >= watched_since_ms
            recovery = recovery_of(record, view, by_any_answer=there)
            if recovery.first_commit_at_ms is not None or _stays_idle(recovery, record, view):
                noted = NotedRecovery(
                    incident=record.incident.id, decided_at_ms=record.decided_at_ms, recovery=recovery
                )
                found.append(noted)
    return found


def _stays_idle(recovery: Recovery, record: IncidentRecord, view: ControlView) -> bool:
    """Whether every task was owned some time ago, by the clock of its owner, and has had no input since."""
    if not recovery.over(record.incident.tasks):
        return False
    ages_ms = [
        status.sent_at_ms - (task.owned_at_ms or status.sent_at_ms)
        for status in view.statuses.values()
        for task in status.tasks
        if task.role is Role.ACTIVE and task.task in recovery.without_input
    ]
    return min(ages_ms, default=0) > _IDLE_MS


def _seen(record: IncidentRecord, view: ControlView) -> NotedRecovery | None:
    seen = view.recoveries.get(record.incident.id)
    return seen if seen is not None and seen.decided_at_ms == record.decided_at_ms else None


def recovery_of(record: IncidentRecord, view: ControlView, *, by_any_answer: bool = False) -> Recovery:
    """What the owners of the incident's tasks did since it was answered; a task that moved again has nothing.

    Args:
        by_any_answer: whether one that moved again has what its owner of now did.
    """
    owners: dict[TaskId, TaskStatus | None] = {}
    ahead_ms: dict[TaskId, int] = {}
    names: dict[TaskId, str] = {}
    for task_id in record.incident.tasks:
        given = view.assignment.tasks.get(task_id) if view.assignment else None
        status = view.statuses.get(given.active) if given and given.active else None
        answered = given is not None and (by_any_answer or given.active_since <= record.generation)
        names[task_id] = status.instance if status else ""
        ahead_ms[task_id] = _ahead_ms(status, view) if status else 0
        owners[task_id] = None
        if answered and given is not None and status is not None:
            owners[task_id] = _took_over(record, given, status, task_id, ahead_ms[task_id])
    known = [task for task in owners.values() if task is not None]
    idle = tuple(task.task for task in known if task.had_no_input)
    owned = [None if task is None else _at(task.owned_at_ms, ahead_ms[id]) for id, task in owners.items()]
    busy = [(id, task) for id, task in owners.items() if id not in idle]
    committed = [None if task is None else _at(task.first_commit_at_ms, ahead_ms[id]) for id, task in busy]
    return Recovery(
        resumed_offsets={t.task: t.resumed_offset for t in known if t.resumed_offset is not None},
        owned_at_ms=_last(owned),
        first_commit_at_ms=_last(committed),
        restores=tuple(task.restore_on(names[task.task]) for task in known),
        without_input=idle,
        lost_records=sum(task.lost_records for task in known) if known and len(known) == len(owners) else None,
        by_later_answer=any(task.generation > record.generation for task in known),
    )


def _took_over(
    record: IncidentRecord, given: TaskAssignment, status: InstanceStatus, task_id: TaskId, ahead_ms: int
) -> TaskStatus | None:
    """A task as its owner has it since the failure; None where it has not taken it over since.

    One that nothing else could take stays with the process in which it failed: what that says of its own takeover is
    older than the failure, until the task is tried again there.
    """
    task, incident = status.active_task(task_id, given.active_since), record.incident
    if task is None or (status.instance, status.incarnation) != (incident.instance, incident.incarnation):
        return task
    began_ms = record.failed_at_ms or record.detected_at_ms or record.decided_at_ms
    return task if (_at(task.owned_at_ms, ahead_ms) or 0) >= began_ms else None


def _ahead_ms(status: InstanceStatus, view: ControlView) -> int:
    """By how much an instance's clock is ahead of the brokers', at the least: its heartbeat was sent before it came.

    One that is behind cannot be told from one whose heartbeat was long on its way.
    """
    ahead_ms = status.sent_at_ms - view.heard_at_ms.get(status.instance, status.sent_at_ms)
    return ahead_ms if ahead_ms > CLOCKS_AGREE_MS else 0


def _at(time_ms: int | None, ahead_ms: int) -> int | None:
    return None if time_ms is None else time_ms - ahead_ms


def _last(times: list[int | None]) -> int | None:
    known = [at for at in times if at is not None]
    return max(known) if known and len(known) == len(times) else None


def clock_gap(rto: RtoParts, record: IncidentRecord) -> str | None:
    """Why the RTO is not measured although all have committed; None where clocks are not known to differ."""
    if rto.clocks_differ_ms is None:
        return None
    first = "the brokers" if record.failed_at_ms else "the watcher"
    owners = ", ".join(sorted({decision.to for decision in record.plan if decision.to})) or "the next owner"
    return f"not measured: the clocks of {first} and of {owners} differ by {rto.clocks_differ_ms / 1000:.1f} s or more"


_COLUMNS = (
    "began (UTC)", "kind", "cause", "outcome", "instances", "tasks", "RTO", "detected", "decided", "owned", "output",
    "predicted", "lost", "doubled", "restored", "records/s", "SLO", "by",
)  # fmt: skip
_SLO = {None: "-", True: "met", False: "missed"}


def history_table(records: Sequence[HistoryRecord]) -> str:
    """A line for each record in the order given, and below it why it failed or was skipped.

    The four columns after the RTO are its parts: from the failure until it was detected, from there until the next
    generation was published, until the last task was owned, until it committed. ``lost`` and ``doubled`` are input
    records, ``restored`` changelog records; ``-`` is not known.
    """
    if not records:
        return "no history"
    header, *rows = table_lines(_COLUMNS, [_row(record) for record in records])
    lines = [header]
    for record, row in zip(records, rows, strict=True):
        lines.append(row)
        if record.reason is not None:
            lines.append(f"    {' '.join(record.reason.split())}")
    return "\n".join(lines)


def _row(record: HistoryRecord) -> Sequence[str]:
    rto, error = record.rto, record.prediction_error_percent
    predicted = seconds(record.predicted_rto_ms) + ("" if error is None else f" ({error:+.0f} %)")
    return (
        utc_cell(record.at_ms),
        record.kind.value,
        record.cause,
        record.outcome.value,
        ",".join(record.instances) or "-",
        str(len(record.tasks)),
        seconds(rto.total_ms),
        *(seconds(ms) for _, ms in rto.phases),
        predicted,
        number(record.rpo.lost_records),
        number(record.rpo.doubled_records),
        number(record.restored_records),
        number(record.restored_records_per_s),
        _SLO[record.slo_met],
        record.by,
    )
