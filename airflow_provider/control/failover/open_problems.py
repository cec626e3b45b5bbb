"""Failures that have no answer, as the watcher sees it, and those that were answered and are not repaired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider.control.records.incident import Incident

if TYPE_CHECKING:
    from airflow_provider.control.topics.view import ControlView

__all__ = ["Unanswered", "open_incidents", "unanswered_problem", "unanswered_problems"]


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """An incident that was reported to Airflow more than once, since no failover answered it. Kept in the `Watcher`.

    Args:
        incident: `Incident.id`.
        what: its kind, and the instance or the tasks that it is of, in a few words.
        reported_at_ms: when it was reported first, epoch ms of the watcher's clock.
    """

    incident: str
    what: str
    reported_at_ms: int

    @classmethod
    def of(cls, incident: Incident, reported_at_ms: int) -> Unanswered:
        """Of an incident.

        Args:
            incident: which has no answer.
            reported_at_ms: see above.
        """
        whose = incident.instance or ", ".join(map(str, incident.tasks))
        return cls(incident=incident.id, what=f"{incident.kind.value} of {whose}", reported_at_ms=reported_at_ms)


def unanswered_problem(application_id: str, found: Unanswered, at_ms: int) -> str:
    """What is wrong, and what to look at, in one line.

    Args:
        application_id: the application.
        found: what has no answer.
        at_ms: now, by the watcher's clock.
    """
    return (
        f"{found.what} was reported {(at_ms - found.reported_at_ms) / 1000:.0f} s ago, and no failover has answered "
        f"it: is the DAG {application_id}_failover paused or stale, or does its file not parse? "
        'See "No failover run" in the runbook.'
    )


def unanswered_problems(view: ControlView) -> tuple[str, ...]:
    """A line for each that the watcher named last, unless it was answered since.

    Args:
        view: what the control topics hold; only a watcher that lives says what is so now.
    """
    watcher = view.watcher
    if watcher is None:
        return ()
    return tuple(
        unanswered_problem(view.application_id, one, watcher.sent_at_ms)
        for one in watcher.unanswered
        # One that is held for want of an instance is reported again once there is one.
        if one.incident not in view.incidents or view.incidents[one.incident].no_candidate
    )


def open_incidents(view: ControlView) -> tuple[str, ...]:
    """The incidents that were answered and are not repaired, a line each."""
    return tuple(
        f"{record.incident.kind.value} of {record.incident.instance} is answered and not repaired "
        f"({'; '.join(record.decisions) or record.incident.evidence}): look at the repair DAG."
        for record in view.unresolved_incidents
    )
