"""Waits until what a drill's fault brings about is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import XComArg

from airflow_provider.common.json_codec import from_plain
from airflow_provider.control.drills.readiness import fault_over
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.waiting.conditions import Condition
from airflow_provider.sensors.control import ControlSensor


class FaultEndSensor(ControlSensor):
    """Waits for what has to follow a drill's fault: that the failure is answered and marked resolved.

    Args:
        fault: what `InjectFaultOperator` returned.
        kwargs: see `ControlSensor`.

    Returns:
        ``incident_id`` and the ``generation`` that answered it.

    Raises:
        DeadlineError: it took too long; says how far it came.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "fault")

    def __init__(self, *, application_id: str, fault: Mapping[str, Any] | XComArg, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.fault: Mapping[str, Any] = fault  # type: ignore[assignment]  # rendered before it is used

    def condition(self) -> Condition:
        """What to wait for."""
        return fault_over(from_plain(dict(self.fault), InjectedFault))
