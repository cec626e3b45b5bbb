"""What can be waited for of an incident."""

from __future__ import annotations

from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.messages import end_of
from airflow_provider.control.waiting.observation import Observation

__all__ = ["IncidentResolved"]


class IncidentResolved(Condition, frozen=True):
    """The failure of one process of an instance was answered, and redundancy is back.

    Args:
        instance: its name.
        incarnation: the process.
        generation: only what was found while this assignment was the newest, or a later one.
    """

    instance: str
    incarnation: int
    generation: int = 0

    def __str__(self) -> str:
        """What is waited for."""
        return f"the failure of {self.instance} (incarnation {self.incarnation}) to be answered and resolved"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Looks at the records of incidents alone."""
        # One that came back after a silence may have more than one.
        for record in sorted(seen.view.incidents.values(), key=lambda record: record.generation, reverse=True):
            incident = record.incident
            if (incident.instance, incident.incarnation) != (self.instance, self.incarnation):
                continue
            if incident.generation < self.generation:
                continue
            if record.resolved_at_ms is None:
                line = f"answered by {record.answered_by} with generation {record.generation}, not resolved yet"
                return Evaluation(Outcome.WAITING, line)
            answer = {
                "incident_id": incident.id,
                "generation": record.generation,
                "answered_by": record.answered_by,
                "answered_by_dag": record.answered_by_dag,
            }
            return Evaluation(Outcome.MET, "resolved", answer)
        status = seen.view.statuses.get(self.instance)
        return Evaluation(Outcome.WAITING, f"no record of it; {end_of(status, seen) if status else 'no heartbeat'}")
