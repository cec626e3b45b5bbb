"""When a task failed, or stood still: a pure function of what its instance reports."""

from __future__ import annotations

from airflow_provider.control.records.incident import Incident, IncidentKind
from airflow_provider.control.topics.view import ControlView

__all__ = ["task_failed_at_ms"]


def task_failed_at_ms(incident: Incident, view: ControlView) -> int | None:
    """When the task of an incident failed, or committed last before it stood still.

    The instance lives on: its newest heartbeat may come long after that, and says how long ago it was.

    Args:
        incident: of any kind.
        view: holds the newest heartbeat.

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
