"""Restores an instance's stores from their changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.conditions import TasksReplayed
from airflow_provider.errors import AssignmentError, InstanceError
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.promotion import numbers_of

__all__ = ["ReplayChangelogOperator"]


class ReplayChangelogOperator(ControlOperator):
    """Has an instance move the stores of some tasks aside and restore them from their changelogs.

    A task that is active there stands still meanwhile; a standby is not warm meanwhile. It waits without a worker
    until the copies are whole again, with a line of progress in the task's log every few seconds. A retry goes on
    waiting for the same replay; start another run to replay again.

    Args:
        application_id: the application.
        instance: the instance's name.
        tasks: the task's number, or several; it has to hold a copy of each.
        kwargs: see `ControlOperator`.

    Returns:
        ``instance``, and by task ``restored_records``, ``restored_bytes`` and ``restore_s``.

    Raises:
        InstanceError: the instance does not live, ended meanwhile, or a task failed.
        AssignmentError: it holds no copy of a task.
        DeadlineError: the copies were not whole in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "tasks")

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        tasks: int | str | Sequence[int],
        deadline_s: float | None = 3600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, deadline_s=deadline_s, **kwargs)
        self.instance = instance
        self.tasks = tasks

    def execute(self, context: Context) -> None:
        """Command and wait."""
        numbers = numbers_of(self.tasks)
        view = self.hook.read(self.application_id)
        status = view.statuses.get(self.instance)
        if status is None or not status.state.alive:
            raise InstanceError(
                f"Instance {self.instance!r} of {self.application_id!r} does not live "
                f"({status.state.value if status else 'never heard of'}): deploy it before a replay."
            )
        held = {task.task for task in status.tasks}
        if missing := sorted(set(numbers) - held):
            raise AssignmentError(
                f"Instance {self.instance!r} holds no copy of task(s) {', '.join(map(str, missing))}, only of "
                f"{', '.join(map(str, sorted(held))) or 'none'}: mend the numbers, or assign it the tasks first."
            )
        mapped = context["ti"].map_index
        replay = Command(
            f"replay/{context['run_id']}/{self.task_id}/{mapped}/{status.incarnation}",
            CommandKind.REPLAY,
            self.instance,
            status.incarnation,
            numbers,
        )
        sent = view.commands.get(self.instance)
        if sent is None or sent.id != replay.id:
            self.hook.write(self.application_id, replay)
        self.wait_for(TasksReplayed(self.instance, replay.id, numbers))
