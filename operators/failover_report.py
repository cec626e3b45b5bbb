"""Reports a failover and marks its incident resolved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.common.clock import now_ms
from airflow_provider.control.incident_resolution import resolve_incident
from airflow_provider.control.report import FailoverReport, report
from airflow_provider.errors import InstanceError
from airflow_provider.links.failover_run import FailoverRun, FailoverRunLink
from airflow_provider.operators.arguments import parse_if_given, parse_seconds
from airflow_provider.operators.control import ControlOperator

__all__ = ["ReportFailOverOperator"]


class ReportFailOverOperator(ControlOperator):
    """Marks an incident resolved, reports what its failover cost, and completes its record in the history.

    A history that cannot be written is a warning; the incident is remembered in the assignment topic the longer.

    Args:
        application_id: the application.
        incident_id: `Incident.id`.
        max_rto_s: the promised RTO in seconds, for the history; None where none is.
        kwargs: see `ControlOperator`.

    Returns:
        The values of a `FailoverReport`.

    Raises:
        InstanceError: there is no record of the incident.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "incident_id", "max_rto_s")
    operator_extra_links = (FailoverRunLink(),)

    def __init__(self, *, application_id: str, incident_id: str, max_rto_s: float | None = None, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.incident_id = incident_id
        self.max_rto_s = max_rto_s

    def execute(self, context: Context) -> dict[str, Any]:
        """Mark and report."""
        slo_rto_s = parse_if_given(parse_seconds, "max_rto_s", self.max_rto_s)
        view = self.hook.read(self.application_id)
        record = view.incidents.get(self.incident_id)
        if record is None:
            raise InstanceError(
                f"Incident {self.incident_id!r} of {self.application_id!r} has no record: run the failover DAG first."
            )
        self.linked_run = FailoverRun.of(record)
        record = resolve_incident(
            record,
            view,
            at_ms=now_ms(),
            note=lambda history: self.note_history([history]),
            write=lambda resolved: self.hook.write(self.application_id, resolved),
            slo_rto_s=slo_rto_s,
        )
        cost: FailoverReport = report(record, view)
        self.log.info("Failover of %s\n%s", record.incident.instance, cost)
        return cost.to_plain()
