"""Stops an instance of an application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.conditions import InstanceEnded
from airflow_provider.errors import InstanceError
from airflow_provider.operators.control import ControlOperator

__all__ = ["StopInstanceOperator"]


class StopInstanceOperator(ControlOperator):
    """Asks an instance to commit, close its stores and say goodbye, and waits for the goodbye without a worker.

    Its active tasks stand still from then on: give them to others with `AssignTasksOperator`, before or after. An
    instance that said goodbye already is left alone.

    Args:
        application_id: the application.
        instance: the instance's name.
        deadline_s: how long the goodbye may take, in seconds.
        kwargs: see `ControlOperator`.

    Returns:
        The handle of the stopped instance.

    Raises:
        InstanceError: there is no such instance, or it ended without a goodbye.
        DeadlineError: it did not say goodbye in time.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance")

    def __init__(self, *, application_id: str, instance: str, deadline_s: float | None = 60.0, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, deadline_s=deadline_s, **kwargs)
        self.instance = instance

    def execute(self, context: Context) -> None:
        """Command and wait."""
        status = self.hook.read(self.application_id).statuses.get(self.instance)
        if status is None:
            raise InstanceError(
                f"Nothing was ever heard of instance {self.instance!r} of {self.application_id!r}: mend its name."
            )
        if status.state.alive:
            stop = Command(
                f"stop/{context['run_id']}/{self.task_id}/{status.incarnation}",
                CommandKind.STOP,
                self.instance,
                status.incarnation,
            )
            self.hook.write(self.application_id, stop)
        self.wait_for(InstanceEnded(self.instance, status.incarnation))
