"""Reports a failover and marks its incident resolved."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.control.report import FailoverReport, report
from airflow_provider.errors import InstanceError
from airflow_provider.operators.control import ControlOperator

__all__ = ["ReportFailOverOperator"]


class ReportFailOverOperator(ControlOperator):
    """Marks an incident resolved and tells what its failover cost.

    Args:
        application_id: the application.
        incident_id: `Incident.id`.
        kwargs: see `ControlOperator`.

    Returns:
        The values of a `FailoverReport`.

    Raises:
        InstanceError: there is no record of the incident.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "incident_id")

    def __init__(self, *, application_id: str, incident_id: str, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.incident_id = incident_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Mark and tell."""
        view = self.hook.read(self.application_id)
        record = view.incidents.get(self.incident_id)
        if record is None:
            raise InstanceError(
                f"There is no record of incident {self.incident_id!r} of {self.application_id!r}: it was not answered."
            )
        if record.resolved_at_ms is None:
            record = dataclasses.replace(record, resolved_at_ms=time.time_ns() // 1_000_000)
            self.hook.write(self.application_id, record)
        told: FailoverReport = report(record, view)
        self.log.info("Failover of %s\n%s", record.incident.instance, told)
        return told.to_plain()
