"""How a condition travels from an operator to the triggerer: as a name and plain arguments."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from airflow_provider.control.conditions.incident import IncidentResolved
from airflow_provider.control.conditions.instance import CommandObeyed, InstanceEnded, InstanceInState, InstanceRunning
from airflow_provider.control.conditions.replay import TasksReplayed
from airflow_provider.control.conditions.standby import StandbysWarm
from airflow_provider.control.conditions.task import TaskInState, TasksRunning
from airflow_provider.control.conditions.verdict import Condition
from airflow_provider.errors import ConfigurationError

__all__ = ["from_plain", "to_plain"]


_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        CommandObeyed, IncidentResolved, InstanceEnded, InstanceInState, InstanceRunning, StandbysWarm, TaskInState,
        TasksReplayed, TasksRunning,
    )
}  # fmt: skip


def to_plain(condition: Condition) -> dict[str, Any]:
    """A condition as plain values, for a trigger's arguments."""
    plain: dict[str, Any] = msgspec.to_builtins(condition)
    return {"kind": type(condition).__name__, **plain}


def from_plain(plain: dict[str, Any]) -> Condition:
    """The inverse of `to_plain`.

    Raises:
        ConfigurationError: the values are not those of a condition.
    """
    arguments = dict(plain)
    kind = _KINDS.get(str(arguments.pop("kind", None)))
    if kind is None:
        raise ConfigurationError(f"{plain.get('kind')!r} is no condition: use one of {', '.join(sorted(_KINDS))}.")
    try:
        condition: Condition = msgspec.convert(arguments, type=kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"The arguments of {kind.__name__} are wrong: {error}.") from error
    return condition
