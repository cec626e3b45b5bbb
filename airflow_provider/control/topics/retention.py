"""Which records of the control topics have outlived their use: a pure function, without a clock."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.control.records.command import Command
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.incident import IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.view import ControlView

_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class ControlRetention:
    """How long the control topics remember what is over.

    Args:
        incident_ms: an incident, after it was decided; what a drill did.
        max_incidents: how many resolved incidents, the newest.
        resolved_ms: a resolved incident that ``<app>-history`` has and that no decision looks at any more, after it was
            resolved: for as long as a drill, or another try of a task, may still ask for it.
        instance_ms: an instance that the assignment does not name, its deployment and commands to it, after its last
            word.
    """

    incident_ms: int = 30 * _DAY_MS
    max_incidents: int = 100
    resolved_ms: int = _DAY_MS
    instance_ms: int = 30 * _DAY_MS


def outdated(
    view: ControlView, now_ms: int, retention: ControlRetention | None = None
) -> tuple[IncidentRecord | InstanceStatus | Deployment | Command | InjectedFault, ...]:
    """The values whose keys can go.

    An incident answers nothing any more once it is old: the generation that answered it names its instance no longer.
    One of a task is looked at for longer: it says where the task failed before.

    Args:
        now_ms: epoch ms.
        retention: how long they are kept; None for the defaults.
    """
    kept = retention or ControlRetention()
    newest = sorted(view.incidents.values(), key=lambda record: record.decided_at_ms, reverse=True)
    resolved = [record for record in newest if record.resolved_at_ms is not None]
    surplus = {record.incident.id for record in resolved[kept.max_incidents :]}
    incidents = [
        record
        for record in newest
        if record.incident.id in surplus
        or now_ms - record.decided_at_ms > kept.incident_ms
        or (_told(record) and now_ms - (record.resolved_at_ms or now_ms) > kept.resolved_ms)
    ]
    named = view.assignment.instances if view.assignment else ()
    # By the broker's clock alone: the newest word of any instance against this one's.
    gone = [
        status
        for name, status in sorted(view.statuses.items())
        if name not in named and view.newest_ms - view.heard_at_ms.get(name, 0) > kept.instance_ms
    ]
    deployments = [view.deployments[s.instance] for s in gone if s.instance in view.deployments]
    commands = [command for s in gone for command in view.commands.get(s.instance, {}).values()]
    faults = [fault for fault in view.faults.values() if now_ms - fault.injected_at_ms > kept.incident_ms]
    return (*incidents, *gone, *deployments, *commands, *faults)


def _told(record: IncidentRecord) -> bool:
    of_task = record.incident.kind in (IncidentKind.TASK_FAILED, IncidentKind.TASK_STALLED)
    return record.in_history and not of_task
