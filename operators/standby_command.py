"""Operators that have instances do something with the stores of their standbys now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_names, parse_optional
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import parse_tasks
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.waiting.standby import done, standby_commands
from airflow_provider.errors import InstanceError
from airflow_provider.operators.control import ControlOperator


class StandbyCommandOperator(ControlOperator):
    """Gives each instance that holds such a standby one command, and waits for all. Each try asks again.

    Args:
        instances: only the standbys of these; None for all that run.
        tasks: only these, such as ``0_3``; None for all.
        timeout_s: how long it may take, in seconds.
        kwargs: see `ControlOperator`.

    Returns:
        By instance and task, the changelog offset at which it was done.

    Raises:
        InstanceError: no such instance holds such a standby, or one refuses, ended or was replaced.
        DeadlineError: it was not done in time.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instances", "tasks")
    kind: ClassVar[CommandKind]

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
            self.kind,
            f"{self.task_of_run(context)}/{now_ms()}",
            None if named is None else parse_names("instances", named),
            () if tasks is None else parse_tasks(tasks),
        )
        self.hook.write(self.application_id, *commands)
        return self.wait_for(done(view, commands))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, dict[str, int]]:
        """Return where each was done."""
        results = super().execute_complete(context, event)["results"]
        return {result["instance"]: result["positions"] for result in self.checked(results)}

    def checked(self, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results, where none of them is a failure of what was asked for."""
        return results


class CertifyStandbysOperator(StandbyCommandOperator):
    """Has instances compare the stores of their standbys with what their actives held, by its digest, and waits.

    A standby compares what it holds at the end of its changelog with the digest in its active's last commit record,
    whether a comparison is due or not; the active is not touched. One whose active's digest is not known waits for a
    commit that has it.

    Args:
        kwargs: see `StandbyCommandOperator`; as to `timeout_s`, each instance reads one whole store after the other.

    Returns:
        By instance and task, the changelog offset at which its store held the same as its active's.

    Raises:
        InstanceError: a store held something else, so it was moved aside and is restored from its changelog; or as for
            `StandbyCommandOperator`, like all other errors.
    """

    kind = CommandKind.CERTIFY

    def checked(self, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results, where no store held something else."""
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
        return results


class SnapshotStandbysOperator(StandbyCommandOperator):
    """Has instances copy the stores of their standbys to the place that the job's ``snapshots()`` names, and waits.

    They are taken whether they are due or not, but only of a store that is at the end of its changelog and, where its
    active's digest is known, certified.

    Args:
        kwargs: see `StandbyCommandOperator`.

    Returns:
        By instance and task, the changelog offset of its snapshot.

    Raises:
        InstanceError: one could not send its copy; or as for `StandbyCommandOperator`, like all other errors.
    """

    kind = CommandKind.SNAPSHOT
