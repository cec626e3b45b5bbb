"""Stops an instance of an application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_provider.control.assignor import assign
from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.conditions import InstanceEnded
from airflow_provider.control.status import InstanceState
from airflow_provider.errors import InstanceError
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.publisher import AssignmentPublisher

__all__ = ["StopInstanceOperator"]


class StopInstanceOperator(ControlOperator):
    """Asks an instance to commit, close its stores and say goodbye, and waits for the goodbye without a worker.

    Its tasks are handed over to the other running instances first, to warm standbys where there are any, as when an
    instance of Kafka Streams is closed. Where no other runs, or without `hand_over`, they stand still until it or
    another gets them again. An instance that said goodbye already is left alone.

    Args:
        application_id: the application.
        instance: the instance's name.
        hand_over: whether others get its tasks.
        deadline_s: how long the goodbye may take, in seconds.
        kwargs: see `ControlOperator`.

    Returns:
        The handle of the stopped instance.

    Raises:
        FencedError: other publishers took over again and again.
        InstanceError: there is no such instance, or it ended without a goodbye.
        DeadlineError: it did not say goodbye in time.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance")

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        hand_over: bool = True,
        deadline_s: float | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, deadline_s=deadline_s, **kwargs)
        self.instance = instance
        self.hand_over = hand_over

    def execute(self, context: Context) -> None:
        """Hand over, command and wait."""
        status = self.hook.read(self.application_id).statuses.get(self.instance)
        if status is None:
            raise InstanceError(
                f"Nothing was ever heard of instance {self.instance!r} of {self.application_id!r}: mend its name."
            )
        if self.hand_over:
            self.publish_by(self._hand_over)
        if status.state.alive:
            stop = Command(
                f"stop/{context['run_id']}/{self.task_id}/{status.incarnation}",
                CommandKind.STOP,
                self.instance,
                status.incarnation,
            )
            self.hook.write(self.application_id, stop)
        self.wait_for(InstanceEnded(self.instance, status.incarnation))

    def _hand_over(self, publisher: AssignmentPublisher) -> None:
        view = publisher.view
        others = [
            name
            for name in view.healthy(float(self.instance_timeout_s))
            if name != self.instance and view.statuses[name].state is InstanceState.RUNNING
        ]
        if view.assignment is None or self.instance not in view.assignment.instances or not others:
            return
        replicas = max(len(task.standbys) for task in view.assignment.tasks)
        after = assign(view.assignment, others, replicas, view.warm())
        publisher.publish(view.assignment.next(after, f"{self.instance} is stopped"))
