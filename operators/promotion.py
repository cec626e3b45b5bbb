"""Promotes a standby by a person's or a DAG's choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.placement.moves import promote
from airflow_provider.control.waiting.conditions import TasksRunning
from airflow_provider.errors import AssignmentError
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher


class PromoteStandbyOperator(ControlOperator):
    """Makes a standby the active one, and waits until it processes the tasks.

    The former active, when it lives, becomes a standby. A retry goes on waiting for what the first try published.

    Args:
        tasks: the task, such as ``0_3``, or several.
        to: the instance to promote; None takes each task's most caught-up healthy standby.
        kwargs: see `ControlOperator`.

    Returns:
        ``generation`` and the ``active`` instance by task.

    Raises:
        AssignmentError: nothing is assigned yet, a task does not exist, or it has no healthy standby to promote.
        FencedError: other publishers took over again and again.
        InstanceError: the task failed there, or a newer generation gave it to another.
        DeadlineError: it did not run in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "tasks", "to")

    def __init__(
        self,
        *,
        application_id: str,
        tasks: TaskId | str | Sequence[TaskId | str],
        to: str | None = None,
        timeout_s: float | None = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.tasks = tasks
        self.to = to

    def execute(self, context: Context) -> Any:
        """Publish and wait."""
        tasks = parse_tasks(self.tasks)
        # It names the try's run, so that a retry knows its own generation again.
        reason = f"promotion of task(s) {', '.join(map(str, tasks))} by {context['run_id']}/{self.task_id}"
        generation = self.publish_by(lambda publisher: self._publish(publisher, tasks, reason))
        return self.wait_for(TasksRunning(tasks, self.to or None, generation))

    def _publish(self, publisher: AssignmentPublisher, tasks: tuple[TaskId, ...], reason: str) -> int:
        view = publisher.view
        if view.assignment is None:
            raise AssignmentError(
                f"Nothing of {self.application_id!r} is assigned yet: assign its tasks before promoting any."
            )
        if view.assignment.reason == reason:
            return view.assignment.generation
        healthy = view.healthy(self.timeouts)
        after = promote(view.assignment, view.statuses, healthy, tasks, self.to or None)
        following = view.assignment.next(after, reason)
        publisher.publish(following)
        self.log.info("Published generation %d: %s", following.generation, reason)
        return following.generation
