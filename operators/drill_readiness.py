"""Checks that a failure of an application would be answered, before a drill makes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.drill_fault import DrillKind, parse_drill_kind
from airflow_provider.control.drills.readiness import readiness_problems
from airflow_provider.control.watcher import SILENT_AFTER_S
from airflow_provider.errors import InstanceError
from airflow_provider.operators.arguments import parse_optional
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.failover_dag import failover_dag_problem

__all__ = ["CheckDrillReadinessOperator"]


class CheckDrillReadinessOperator(ControlOperator):
    """Refuses a drill of an application whose failures are not answered, or that has one that is not repaired yet.

    It refuses too where a disk could not take the worst case of the drill's kind (`control.drill_fault.Room`): stores
    that are restored afresh beside those that are kept.

    It listens until the application's watcher says that it watches, for ten seconds at most. That every task has its
    warm standbys is `StandbyLagSensor`'s to say.

    Args:
        application_id: the application.
        failover_dag_id: the DAG that answers its failures, which must not be paused; None does not ask. A DAG that was
            paused within the last half minute may still be watched.
        failover_asset: the name of the asset whose events start that DAG, which must be active; None does not ask.
        instance: the one that is to fail; None for the one with the most active tasks.
        kind: of the drill.
        kwargs: see `ControlOperator`.

    Returns:
        The `Watcher` as plain values.

    Raises:
        InstanceError: the application is not watched, its failover DAG is paused or its asset not active, an incident
            is open or has no answer, or a disk is too small, or there is none that the drill could hit; a line each.
        ConfigurationError: there is no such kind.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields,
        "failover_dag_id",
        "failover_asset",
        "instance",
        "kind",
    )

    def __init__(
        self,
        *,
        application_id: str,
        failover_dag_id: str | None = None,
        failover_asset: str | None = None,
        instance: str | None = None,
        kind: str = DrillKind.CRASH.value,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.failover_dag_id = failover_dag_id
        self.failover_asset = failover_asset
        self.instance = instance
        self.kind = kind

    def execute(self, context: Context) -> dict[str, Any]:
        """Look and listen."""
        with self.hook.reader(self.application_id) as reader:
            view = reader.read_to_end()
            heard = reader.listen_for_watcher(SILENT_AFTER_S)
        dag_id = parse_optional(self.failover_dag_id)
        of_dag = None if dag_id is None else failover_dag_problem(context, dag_id, parse_optional(self.failover_asset))
        kind, instance = parse_drill_kind(self.kind), parse_optional(self.instance)
        found = (of_dag, *readiness_problems(view, kind, instance, self.timeouts, heard=heard))
        if problems := [line for line in found if line is not None]:
            lines = "".join(f"\n  - {line}" for line in problems)
            raise InstanceError(f"{self.application_id!r} is not ready for a drill, so nothing was done:{lines}")
        watcher: dict[str, Any] = to_plain(view.watcher)
        self.log.info("Watched by process %s on %s", watcher["pid"], watcher["host"])
        return watcher
