"""Waits until the failure of an instance is answered and the redundancy is back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.control.conditions import Condition, IncidentResolved
from airflow_provider.sensors.control import ControlSensor

__all__ = ["IncidentResolutionSensor"]


class IncidentResolutionSensor(ControlSensor):
    """Waits for the record of an instance's failure to be marked resolved, as the failover DAG does at its end.

    Args:
        application_id: the application.
        instance: the instance that fails.
        incarnation: the process of it.
        kwargs: see `ControlSensor`.

    Returns:
        ``incident_id`` and the ``generation`` that answered it.

    Raises:
        DeadlineError: it took too long; says how far it came.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "instance", "incarnation")

    def __init__(self, *, application_id: str, instance: str, incarnation: int | str, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance
        self.incarnation = incarnation

    def condition(self) -> Condition:
        """What to wait for."""
        return IncidentResolved(self.instance, int(self.incarnation))
