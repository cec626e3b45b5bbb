"""The keys and values of ``<app>-assignment`` and ``<app>-status``: JSON, one compacted key a thing.

==================  ===========================  =====================
topic               key                          value
==================  ===========================  =====================
``-assignment``     ``assignment``               `Assignment`
``-assignment``     ``command/<instance>``       `Command`
``-status``         ``instance/<instance>``      `InstanceStatus`
``-status``         ``deployment/<instance>``    `Deployment`
``-status``         ``incident/<incident id>``   `IncidentRecord`
==================  ===========================  =====================
"""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.command import Command
from airflow_provider.control.deployment import Deployment
from airflow_provider.control.incident import IncidentRecord
from airflow_provider.control.status import InstanceStatus
from airflow_provider.control.view import ControlView
from airflow_provider.errors import AssignmentError

__all__ = ["Value", "apply", "instance_of", "to_key", "to_value"]

Value = Assignment | Command | InstanceStatus | Deployment | IncidentRecord

_TYPES: Final[dict[str, type[Any]]] = {
    "assignment": Assignment,
    "command": Command,
    "instance": InstanceStatus,
    "deployment": Deployment,
    "incident": IncidentRecord,
}

_OF_STATUS: Final = frozenset({"instance", "deployment", "incident"})
"""Kinds in ``<app>-status``; the broker's append times of one partition can be compared, not those of two."""

log = logging.getLogger(__name__)


def to_key(value: Value) -> bytes:
    """The compacted key under which a value is kept."""
    match value:
        case Assignment():
            return b"assignment"
        case Command():
            return f"command/{value.instance}".encode()
        case InstanceStatus():
            return f"instance/{value.instance}".encode()
        case Deployment():
            return f"deployment/{value.instance}".encode()
        case IncidentRecord():
            return f"incident/{value.incident.id}".encode()


def instance_of(key: bytes) -> str | None:
    """The instance whose status lies under a key; None for any other key."""
    kind, _, name = key.decode("utf-8", "replace").partition("/")
    return name if kind == "instance" else None


def to_value(value: Value) -> bytes:
    """JSON of a value."""
    return msgspec.json.encode(value)


def apply(view: ControlView, key: bytes, value: bytes | None, appended_ms: int) -> bool:
    """Apply one record of either topic to a view.

    An older generation or incarnation than the one known changes nothing: the record of a zombie that was appended
    late must not hide the truth. Unknown keys are passed over, so that a newer version can write more.

    Args:
        view: changed in place.
        key: the record's key.
        value: the record's value; None deletes.
        appended_ms: the broker's append time, epoch ms.

    Returns:
        Whether the view changed. A record that cannot be read changes nothing but the view's ``unreadable``, so that
        one stray record blinds nobody to the others.
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
        read = msgspec.json.decode(value, type=_TYPES[kind])
    except (msgspec.DecodeError, AssignmentError) as error:
        view.unreadable[key] = str(error)
        log.error("The record under %r of %s cannot be read and is left out: %s", key, view.application_id, error)
        return True
    match read:
        case Assignment():
            if view.assignment is not None and read.generation <= view.assignment.generation:
                return False
            view.assignment = read
        case InstanceStatus():
            known = view.statuses.get(read.instance)
            if known is not None and _outdated(read, known):
                return False
            view.statuses[read.instance] = read
            view.heard_at_ms[read.instance] = appended_ms
        case Deployment():
            view.deployments[read.instance] = read
        case Command():
            view.commands[read.instance] = read
        case IncidentRecord():
            view.incidents[read.incident.id] = read
    return True


def _advance(view: ControlView, appended_ms: int) -> None:
    """The records of one partition come in order: a time before the newest means that the broker's clock went back.

    What was heard before goes back with it, else everybody would seem silent until the clock has caught up.
    """
    back_ms = view.newest_ms - appended_ms
    if back_ms > 0:
        view.heard_at_ms = {name: heard - back_ms for name, heard in view.heard_at_ms.items()}
    view.newest_ms = appended_ms


def _outdated(read: InstanceStatus, known: InstanceStatus) -> bool:
    if read.incarnation != known.incarnation:
        return read.incarnation < known.incarnation
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
            return view.commands.pop(name, None) is not None
        case "incident":
            return view.incidents.pop(name, None) is not None
    return False
