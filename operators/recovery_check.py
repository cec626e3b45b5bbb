"""Checks that an application is whole after a drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context, XComArg

from airflow_provider.control.conditions import StandbysWarm
from airflow_provider.control.drill import check_progress, source_offsets
from airflow_provider.control.report import report
from airflow_provider.errors import InstanceError
from airflow_provider.operators.control import ControlOperator

__all__ = ["CheckRecoveryOperator"]


class CheckRecoveryOperator(ControlOperator):
    """Checks what a fault must not have broken, and reports what it cost.

    Every task runs on a living instance and has its warm standbys, by an assignment newer than the fault's; and no
    task's source offset went back. It waits for the first without a worker.

    Args:
        application_id: the application.
        fault: what `InjectFaultOperator` returned.
        num_standby_replicas: how many warm standbys a task must have.
        kwargs: see `ControlOperator`.

    Returns:
        ``fault``, ``progress`` (input records by task since the fault) and ``failover`` (a `FailoverReport`).

    Raises:
        StateError: a task's source offset went back.
        InstanceError: a task failed, or the failure has no record.
        DeadlineError: the application was not whole in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "fault", "num_standby_replicas")

    def __init__(
        self, *, application_id: str, fault: Mapping[str, Any] | XComArg, num_standby_replicas: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.fault: Mapping[str, Any] = fault  # type: ignore[assignment]  # rendered before it is used
        self.num_standby_replicas = num_standby_replicas

    def execute(self, context: Context) -> None:
        """Wait for the redundancy."""
        self.wait_for(StandbysWarm(int(self.num_standby_replicas), generation=int(self.fault["generation"]) + 1))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare the offsets and report."""
        super().execute_complete(context, event)
        view = self.hook.read(self.application_id)
        before = {int(task): int(offset) for task, offset in self.fault["source_offsets"].items()}
        progress = check_progress(before, source_offsets(view))
        records = [
            record
            for record in view.incidents.values()
            if record.incident.instance == self.fault["instance"]
            and record.incident.incarnation == self.fault["incarnation"]
        ]
        if not records:
            raise InstanceError(
                f"The failure of {self.fault['instance']} has no record in {self.application_id!r}: nobody answered "
                "it. Is the failover DAG unpaused, and does its watcher follow this application?"
            )
        told = report(max(records, key=lambda record: record.decided_at_ms), view)
        self.log.info("The drill's failover\n%s", told)
        return {
            "fault": dict(self.fault),
            "progress": {str(task): count for task, count in progress.items()},
            "failover": told.to_plain(),
        }
