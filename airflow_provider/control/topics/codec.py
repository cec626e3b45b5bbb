"""The keys and values of ``<app>-assignment`` and ``<app>-status``: ``docs/formats.md`` lists them, and says why.

Those of ``<app>-history``, which no view holds, are `control.records.history`'s; they are written the same way.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from airflow_provider.common.json_codec import from_numbered_json, to_numbered_json
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.history import HistoryRecord, history_key, history_value
from airflow_provider.control.records.incident import IncidentRecord, NotedRecovery, Watcher
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError
from airflow_provider.kafka.names import assignment_topic, history_topic, status_topic

FORMAT: Final = 1
"""The newest format that this version reads, and the one that it writes."""

Value = (
    Assignment
    | Command
    | InstanceStatus
    | Deployment
    | IncidentRecord
    | NotedRecovery
    | InjectedFault
    | JobDescription
    | Watcher
    | HistoryRecord
)

_TYPES: Final[dict[str, type[Any]]] = {
    "assignment": Assignment,
    "command": Command,
    "instance": InstanceStatus,
    "claim": InstanceStatus,
    "deployment": Deployment,
    "incident": IncidentRecord,
    "recovery": NotedRecovery,
    "fault": InjectedFault,
    "job": JobDescription,
    "watcher": Watcher,
}

_OF_STATUS: Final = frozenset({"instance"})
"""Kinds in ``<app>-status``; the broker's append times of one partition can be compared, not those of two."""

log = logging.getLogger(__name__)


def to_key(value: Value) -> bytes:
    """The compacted key under which a value is kept."""
    match value:
        case Assignment():
            return b"assignment"
        case Command():
            return f"command/{value.instance}/{value.id}".encode()
        case InstanceStatus():
            return f"instance/{value.instance}".encode()
        case Deployment():
            return f"deployment/{value.instance}".encode()
        case IncidentRecord():
            return f"incident/{value.incident.id}".encode()
        case NotedRecovery():
            return f"recovery/{value.incident}".encode()
        case InjectedFault():
            return f"fault/{value.id}".encode()
        case JobDescription():
            return b"job"
        case Watcher():
            return f"watcher/{value.application_id}".encode()
        case HistoryRecord():
            return history_key(value)


def topic_of(value: Value, application_id: str) -> str:
    """The control topic of an application in which a value is kept."""
    if isinstance(value, HistoryRecord):
        return history_topic(application_id)
    heartbeat = isinstance(value, (InstanceStatus, Watcher))
    return status_topic(application_id) if heartbeat else assignment_topic(application_id)


def claim_key(instance: str) -> bytes:
    """The compacted key of ``<app>-assignment`` under which the launch of an instance's process is claimed."""
    return f"claim/{instance}".encode()


def instance_of(key: bytes) -> str | None:
    """The instance whose status or claim lies under a key; None for any other key."""
    kind, _, name = key.decode("utf-8", "replace").partition("/")
    return name if kind in ("instance", "claim") else None


def to_value(value: Value) -> bytes:
    """JSON of a value, with the number of its format."""
    return history_value(value) if isinstance(value, HistoryRecord) else to_numbered_json(value, FORMAT)


def apply(view: ControlView, key: bytes, value: bytes | None, appended_ms: int) -> bool:
    """Apply one record of either topic to a view.

    An older generation or incarnation than the one known changes nothing: the record of a zombie that was appended
    late must not hide the truth. Unknown keys are ignored, so that a newer version can write more.

    Args:
        value: the record's value; None deletes.

    Returns:
        Whether the view changed. A record that cannot be read changes nothing but the view's ``unreadable``, so that
        one stray record hides no other.
    """
    kind, _, name = key.decode("utf-8", "replace").partition("/")
    if kind not in _TYPES:
        return False
    if kind in _OF_STATUS:
        _advance(view, appended_ms)
    view.unreadable.pop(key, None)
    if value is None:
        return _delete(view, kind, name)
    try:
        read = from_numbered_json(value, _TYPES[kind], FORMAT)
    except (msgspec.DecodeError, AssignmentError) as error:
        view.unreadable[key] = str(error)
        log.error("The record under %r of %s cannot be read and is left out: %s", key, view.application_id, error)
        return True
    match read:
        case Assignment():
            if view.assignment is not None and read.generation <= view.assignment.generation:
                return False
            view.assignment = read
        case InstanceStatus() if read.instance != name:
            return False
        case InstanceStatus():
            known = view.statuses.get(read.instance)
            if known is not None and _outdated(read, known, claimed=kind == "claim"):
                return False
            view.statuses[read.instance] = read
            view.heard_at_ms[read.instance] = appended_ms
        case Deployment():
            view.deployments[read.instance] = read
        case Command():
            view.commands.setdefault(read.instance, {})[read.id] = read
        case IncidentRecord():
            view.incidents[read.incident.id] = read
        case NotedRecovery():
            view.recoveries[read.incident] = read
        case InjectedFault():
            view.faults[read.id] = read
        case JobDescription():
            view.job = read
        case Watcher():
            view.watcher, view.watcher_heard_at_ms = read, appended_ms
    return True


def forget_decisions(view: ControlView) -> None:
    """Forget what ``<app>-assignment`` held: it was created again, and generations and incidents begin anew there.

    Those of before would hide them: a lower generation changes nothing, and an incident is answered once.
    """
    log.warning("The assignment topic of %s was created again: what it held before is forgotten", view.application_id)
    view.assignment = view.job = None
    for held in (view.incidents, view.recoveries, view.deployments, view.commands, view.faults):
        held.clear()


def _advance(view: ControlView, appended_ms: int) -> None:
    """The records of one partition come in order: a time before the newest means that the broker's clock went back.

    What was heard before goes back with it, else every instance would seem silent until the clock has caught up.
    """
    back_ms = view.newest_ms - appended_ms
    if back_ms > 0:
        view.heard_at_ms = {name: heard - back_ms for name, heard in view.heard_at_ms.items()}
        view.watcher_heard_at_ms -= back_ms
    view.newest_ms = appended_ms


def _outdated(read: InstanceStatus, known: InstanceStatus, claimed: bool) -> bool:
    if read.incarnation != known.incarnation:
        return read.incarnation < known.incarnation
    if claimed:
        return True  # of two topics, whatever was read first: a process is claimed before its first heartbeat
    # A heartbeat on its way when the process ended does not bring it back.
    return read.state.alive and not known.state.alive


def _delete(view: ControlView, kind: str, name: str) -> bool:
    match kind:
        case "instance":
            view.heard_at_ms.pop(name, None)
            return view.statuses.pop(name, None) is not None
        case "deployment":
            return view.deployments.pop(name, None) is not None
        case "command":
            instance, _, id = name.partition("/")
            return view.commands.get(instance, {}).pop(id, None) is not None
        case "incident":
            return view.incidents.pop(name, None) is not None
        case "recovery":
            return view.recoveries.pop(name, None) is not None
        case "fault":
            return view.faults.pop(name, None) is not None
        case "job":
            described, view.job = view.job, None
            return described is not None
        case "watcher":
            known, view.watcher = view.watcher, None
            return known is not None
    return False
