"""Waits until the failure of an instance is answered and the redundancy is back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.control.waiting.conditions import Condition, IncidentResolved
from airflow_provider.links.failover_run import FailoverRun, FailoverRunLink
from airflow_provider.sensors.control import ControlSensor


class IncidentResolutionSensor(ControlSensor):
    """Waits for the record of an instance's failure to be marked resolved, as the failover DAG does at its end.

    Args:
        instance: the instance that fails.
        kwargs: see `ControlSensor`.

    Returns:
        ``incident_id``, the ``generation`` that answered it, and which run did (``answered_by``, ``answered_by_dag``).

    Raises:
        DeadlineError: it took too long; says how far it came.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "instance", "incarnation")
    operator_extra_links = (FailoverRunLink(),)

    def __init__(self, *, application_id: str, instance: str, incarnation: int | str, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance
        self.incarnation = incarnation

    def condition(self) -> Condition:
        """What to wait for."""
        return IncidentResolved(self.instance, int(self.incarnation))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what was seen, and link the run that answered it."""
        found: dict[str, Any] = super().execute_complete(context, event)
        if found["answered_by_dag"] is not None:
            self.linked_run = FailoverRun(found["answered_by_dag"], found["answered_by"])
        return found
