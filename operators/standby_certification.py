"""Has standbys' stores compared with their actives' now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.common.clock import now_ms
from airflow_provider.control.command import CommandKind
from airflow_provider.control.standby_command import done, standby_commands
from airflow_provider.control.tasks import parse_tasks
from airflow_provider.errors import InstanceError
from airflow_provider.operators.arguments import parse_names, parse_optional
from airflow_provider.operators.control import ControlOperator

__all__ = ["CertifyStandbysOperator"]


class CertifyStandbysOperator(ControlOperator):
    """Has instances compare the stores of their standbys with what their actives held, by its digest, and waits.

    A standby compares what it holds at the end of its changelog with the digest in its active's last commit record,
    whether a comparison is due or not; the active is not touched. One whose active's digest is not known waits for a
    commit that has it. Each try asks again.

    Args:
        application_id: the application.
        instances: only the standbys of these; None for all that run.
        tasks: only these, such as ``0_3``; None for all.
        timeout_s: how long it may take, in seconds: each instance reads one whole store after the other.
        kwargs: see `ControlOperator`.

    Returns:
        By instance and task, the changelog offset at which its store held the same as its active's.

    Raises:
        InstanceError: a store held something else, so it was moved aside and is restored from its changelog; or no such
            instance holds such a standby, or one ended or was replaced.
        DeadlineError: they were not compared in time.
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
            CommandKind.CERTIFY,
            f"{self.task_of_run(context)}/{now_ms()}",
            None if named is None else parse_names("instances", named),
            () if tasks is None else parse_tasks(tasks),
        )
        self.hook.write(self.application_id, *commands)
        return self.wait_for(done(view, commands))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, dict[str, int]]:
        """Return where each is certified."""
        results = super().execute_complete(context, event)["results"]
        lines = [
            f"task {task} on {result['instance']}: {what}"
            for result in results
            for task, what in result["diverged"].items()
        ]
        if lines:
            raise InstanceError(
                f"{len(lines)} standby(s) of {self.application_id!r} did not hold what their actives did. "
                f"{'; '.join(lines)}. The runbook says what to look at."
            )
        return {result["instance"]: result["positions"] for result in results}
