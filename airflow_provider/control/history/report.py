"""What a failover cost: a pure function of what the control topics hold afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.history import CLOCKS_AGREE_MS, RtoParts
from airflow_provider.control.records.incident import IncidentRecord, Recovery
from airflow_provider.control.records.status import InstanceStatus, Role, TaskStatus
from airflow_provider.control.records.task_restore import TaskRestore
from airflow_provider.control.topics.view import ControlView


@dataclass(frozen=True, kw_only=True)
class FailoverReport:
    """One failover, in epoch ms; None where nothing is known.

    The failed instance's end is by the broker's clock, the rest by the clocks of the instances and of Airflow:
    differences are as exact as those clocks agree. That of an instance whose clock is known to be ahead of the
    broker's is set right.

    Args:
        incident_id: `Incident.id`.
        evidence: what was seen.
        decisions: what became of each task, and why.
        generation: of the assignment that answered it.
        failed_at_ms: when the instance sent its last heartbeat, its end was reported, or the task failed.
        detected_at_ms: when the watcher saw it.
        decided_at_ms: when the next generation was published.
        owned_at_ms: when the last of the moved tasks was owned by its new instance.
        first_commit_at_ms: when the last of the moved tasks that had input had committed again.
        resolved_at_ms: when every task had its standbys again.
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

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON knows."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def line(self) -> str:
        """How long it took and what it replayed: to tell one failover from another."""
        rto = "no output yet" if self.rto_ms is None else f"output again after {self.rto_ms / 1000:.1f} s"
        return f"{rto}, {self.restored_records} records replayed"

    def __str__(self) -> str:
        """A table for a log."""
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

    A task that was moved again since, or has input and has not committed any since, leaves the first commit open. One
    that has had no input since is named, and the others are measured.
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
    return noted if noted is not None and noted.first_commit_at_ms is not None else recovery_of(record, view)


def recovery_of(record: IncidentRecord, view: ControlView) -> Recovery:
    """What the owners of the incident's tasks did since it was answered; a task that moved again has nothing."""
    owners: dict[TaskId, TaskStatus | None] = {}
    ahead_ms: dict[TaskId, int] = {}
    names: dict[TaskId, str] = {}
    for task_id in record.incident.tasks:
        given = view.assignment.tasks.get(task_id) if view.assignment else None
        status = view.statuses.get(given.active) if given and given.active else None
        task = status.task(task_id) if status else None
        answered = given is not None and given.active_since <= record.generation
        owners[task_id] = task if answered and task is not None and task.role is Role.ACTIVE else None
        names[task_id] = status.instance if status else ""
        ahead_ms[task_id] = _ahead_ms(status, view) if status else 0
    known = [task for task in owners.values() if task is not None]
    idle = tuple(task.task for task in known if _had_no_input(task))
    owned = [None if task is None else _at(task.owned_at_ms, ahead_ms[id]) for id, task in owners.items()]
    busy = [(id, task) for id, task in owners.items() if id not in idle]
    committed = [None if task is None else _at(task.first_commit_at_ms, ahead_ms[id]) for id, task in busy]
    return Recovery(
        resumed_offsets={t.task: t.resumed_offset for t in known if t.resumed_offset is not None},
        owned_at_ms=_last(owned),
        first_commit_at_ms=_last(committed),
        restores=tuple(
            TaskRestore(
                task=task.task,
                instance=names[task.task],
                records=task.restore.records,
                bytes=task.restore.bytes,
                took_s=task.restore.took_s,
            )
            for task in known
        ),
        without_input=idle,
        lost_records=sum(task.lost_records for task in known) if known and len(known) == len(owners) else None,
    )


def _had_no_input(task: TaskStatus) -> bool:
    """Whether a task that was owned has nothing to commit; what its source holds has to be known for that."""
    waiting = task.source.lag_records != 0 or task.source.uncommitted_records
    return task.owned_at_ms is not None and task.first_commit_at_ms is None and not waiting


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
    """Why the RTO is not measured although the tasks have committed again; None where clocks are not known to differ.

    Args:
        rto: of the failover.
    """
    if rto.clocks_differ_ms is None:
        return None
    first = "the brokers" if record.failed_at_ms else "the watcher"
    owners = ", ".join(sorted({decision.to for decision in record.plan if decision.to})) or "the next owner"
    return f"not measured: the clocks of {first} and of {owners} differ by {rto.clocks_differ_ms / 1000:.1f} s or more"
