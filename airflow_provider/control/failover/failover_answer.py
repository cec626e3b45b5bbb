"""What a failover run did about an incident, for the tasks that follow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import IncidentKind, IncidentRecord


@dataclass(frozen=True, kw_only=True)
class FailoverAnswer:
    """The answer to one incident. Crosses between Airflow tasks as plain values.

    Args:
        instance: what the incident is of.
        incident_id: `Incident.id`.
        kind: what happened.
        evidence: what was seen, in one line.
        tasks: the tasks that are concerned.
        decisions: one line per task.
        moved: by task, its active instance now; None while it has none.
        generation: of the assignment that answers the incident.
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
            moved={task_id: assignment.tasks[task_id].active for task_id in incident.tasks},
            generation=record.generation,
            failed_at_ms=record.failed_at_ms,
            detected_at_ms=record.detected_at_ms,
            decided_at_ms=record.decided_at_ms,
            took_ms=took_ms,
        )
