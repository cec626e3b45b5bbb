"""Restores an instance's stores from their changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.history.builder import restore_record, restores_of
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.control.waiting.conditions import TasksReplayed
from airflow_provider.errors import AssignmentError, InstanceError, StatefulStreamsError
from airflow_provider.operators.control import ControlOperator


class ReplayChangelogOperator(ControlOperator):
    """Has an instance move the stores of some tasks aside and restore them from their changelogs.

    A task that is active there stands still until then, and a standby is not warm. It waits until the
    copies are whole again, with a line of progress in the task's log every few seconds. A retry goes on waiting for the
    same replay; start another run to replay again. What was restored, and how fast, goes into the history.

    Args:
        tasks: the task, such as ``0_3``, or several; it has to hold a copy of each.
        kwargs: see `ControlOperator`.

    Returns:
        ``instance``, and by task ``restored_records``, ``restored_bytes`` and ``restore_s``.

    Raises:
        InstanceError: the instance is not alive, ended, or a task failed.
        AssignmentError: it holds no copy of a task.
        DeadlineError: the copies were not whole in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "tasks")

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        tasks: TaskId | str | Sequence[TaskId | str],
        timeout_s: float | None = 3600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.instance = instance
        self.tasks = tasks

    def execute(self, context: Context) -> Any:
        """Command and wait."""
        tasks = parse_tasks(self.tasks)
        view = self.hook.read(self.application_id)
        status = view.statuses.get(self.instance)
        if status is None or not status.state.alive:
            raise InstanceError(
                f"Instance {self.instance!r} of {self.application_id!r} is not alive "
                f"({status.state.value if status else 'no heartbeat'}): deploy it before a replay."
            )
        held = {task.task for task in status.tasks}
        if missing := sorted(set(tasks) - held):
            raise AssignmentError(
                f"Instance {self.instance!r} holds no copy of task(s) {', '.join(map(str, missing))}, only of "
                f"{', '.join(map(str, sorted(held))) or 'none'}: correct the tasks, or assign it the tasks first."
            )
        mapped = context["ti"].map_index
        replay = Command(
            id=f"replay/{context['run_id']}/{self.task_id}/{mapped}/{status.incarnation}",
            kind=CommandKind.REPLAY,
            instance=self.instance,
            incarnation=status.incarnation,
            tasks=tasks,
        )
        if replay.id not in (*view.commands.get(self.instance, {}), *status.last_commands):
            self.hook.write(self.application_id, replay)
        return self.wait_for(TasksReplayed(self.instance, replay.id, tasks))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what was restored, and note it in the history.

        Raises:
            InstanceError: the instance ended, or a task failed.
            DeadlineError: the copies were not whole in time.
        """
        try:
            restored: dict[str, Any] = super().execute_complete(context, event)
        except StatefulStreamsError as error:
            self._note(context, (), reason=str(error))
            raise
        figures = (restored[name] for name in ("restored_records", "restored_bytes", "restore_s"))
        self._note(context, restores_of(self.instance, *figures))
        return restored

    def _note(self, context: Context, restores: Sequence[TaskRestore], reason: str | None = None) -> None:
        record = restore_record(
            self.application_id,
            self.task_of_run(context),
            str(context["run_id"]),
            self.instance,
            parse_tasks(self.tasks),
            ended_at_ms=now_ms(),
            restores=restores,
            reason=reason,
        )
        self.note_history([record])
