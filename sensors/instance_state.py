"""Waits until an instance is in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.common.json_codec import from_plain
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.waiting.conditions import Condition, InstanceInState
from airflow_provider.links.instance_log import InstanceLogLink
from airflow_provider.links.spark_ui import SparkUiLink
from airflow_provider.sensors.control import ControlSensor


class InstanceStateSensor(ControlSensor):
    """Waits until an instance is in one of some states. One that sends no heartbeat counts as ended.

    Args:
        states: ``starting``, ``running``, ``stopping``, ``stopped``, ``ended``: one or several.
        kwargs: see `ControlSensor`.

    Returns:
        The instance's handle.

    Raises:
        DeadlineError: it took too long; says what was last seen.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "instance", "states")
    operator_extra_links = (InstanceLogLink(), SparkUiLink())

    def __init__(
        self, *, application_id: str, instance: str, states: str | Sequence[str] = ("running",), **kwargs: Any
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance
        self.states = states

    def condition(self) -> Condition:
        """What to wait for."""
        states = self.states.split(",") if isinstance(self.states, str) else self.states
        return InstanceInState(self.instance, tuple(InstanceState(state.strip()) for state in states))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the handle, and link what it names."""
        handle: dict[str, Any] = super().execute_complete(context, event)
        self.linked_instance = from_plain(handle, InstanceHandle)
        return handle
