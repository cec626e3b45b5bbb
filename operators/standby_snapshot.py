"""Has standbys' stores copied elsewhere now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.common.clock import now_ms
from airflow_provider.control.command import CommandKind
from airflow_provider.control.standby_command import done, standby_commands
from airflow_provider.control.tasks import parse_tasks
from airflow_provider.operators.arguments import parse_names, parse_optional
from airflow_provider.operators.control import ControlOperator

__all__ = ["SnapshotStandbysOperator"]


class SnapshotStandbysOperator(ControlOperator):
    """Has instances copy the stores of their standbys to the place that the job's ``snapshots()`` names, and waits.

    They are taken whether they are due or not, but only of a store that is at the end of its changelog and, where its
    active's digest is known, certified. Each try asks again.

    Args:
        application_id: the application.
        instances: only the standbys of these; None for all that run.
        tasks: only these, such as ``0_3``; None for all.
        timeout_s: how long it may take, in seconds.
        kwargs: see `ControlOperator`.

    Returns:
        By instance and task, the changelog offset of its snapshot.

    Raises:
        InstanceError: no such instance holds such a standby, one refuses, ended or could not send its copy.
        DeadlineError: they were not taken in time.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instances", "tasks")

    def __init__(
        self,
        *,
        application_id: str,
        instances: Sequence[str] | str | None = None,
        tasks: Sequence[str] | str | None = None,
        timeout_s: float | str | None = 600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.instances = instances
        self.tasks = tasks

    def execute(self, context: Context) -> Any:
        """Command, and wait for all."""
        named, tasks = parse_optional(self.instances), parse_optional(self.tasks)
        view = self.hook.read(self.application_id)
        commands = standby_commands(
            view,
            CommandKind.SNAPSHOT,
            f"{self.task_of_run(context)}/{now_ms()}",
            None if named is None else parse_names("instances", named),
            () if tasks is None else parse_tasks(tasks),
        )
        self.hook.write(self.application_id, *commands)
        return self.wait_for(done(view, commands))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, dict[str, int]]:
        """Return where each was taken."""
        results = super().execute_complete(context, event)["results"]
        return {result["instance"]: result["positions"] for result in results}
