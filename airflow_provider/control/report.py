"""What a failover cost: a pure function of what the control topics hold afterwards."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from airflow_provider.control.incident import IncidentRecord
from airflow_provider.control.status import Role
from airflow_provider.control.view import ControlView

__all__ = ["FailoverReport", "report"]


@dataclass(frozen=True)
class FailoverReport:
    """One failover, in epoch ms; None where nothing tells.

    The failed instance's end is told by the broker's clock, the rest by the clocks of the instances and of Airflow:
    differences are as exact as those clocks agree.

    Args:
        incident_id: `Incident.id`.
        evidence: what was seen.
        decisions: what became of each task, and why.
        generation: of the assignment that answered it.
        failed_at_ms: when the instance was last heard of, or its end was told.
        detected_at_ms: when the watcher saw it.
        decided_at_ms: when the next generation was published.
        owned_at_ms: when the last of the moved tasks was owned by its new instance.
        first_commit_at_ms: when the last of the moved tasks had committed again.
        resolved_at_ms: when every task had its standbys again.
        restored_records: changelog records that the new owners replayed before they went on.
        rto_ms: from the failure to the first commit of the last of the tasks.
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

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON knows."""
        return {**dataclasses.asdict(self), "decisions": list(self.decisions)}

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
        return "\n".join(lines)


def report(record: IncidentRecord, view: ControlView) -> FailoverReport:
    """Look up what became of the incident's tasks.

    A task that was moved again since, or has had no input since, tells no first commit.
    """
    owned: list[int | None] = []
    committed: list[int | None] = []
    restored = 0
    for number in record.incident.tasks:
        given = view.assignment.tasks[number] if view.assignment else None
        status = view.statuses.get(given.active) if given and given.active else None
        task = status.task(number) if status else None
        if task is None or given is None or task.role is not Role.ACTIVE or given.active_since > record.generation:
            owned.append(None)
            committed.append(None)
            continue
        owned.append(task.owned_at_ms)
        committed.append(task.first_commit_at_ms)
        restored += task.restored_records
    began = record.failed_at_ms or record.detected_at_ms
    first_commit = _last(committed)
    return FailoverReport(
        record.incident.id,
        record.incident.evidence,
        record.decisions,
        record.generation,
        record.failed_at_ms,
        record.detected_at_ms,
        record.decided_at_ms,
        _last(owned),
        first_commit,
        record.resolved_at_ms,
        restored,
        first_commit - began if first_commit is not None and began is not None else None,
    )


def _last(times: list[int | None]) -> int | None:
    known = [at for at in times if at is not None]
    return max(known) if known and len(known) == len(times) else None
