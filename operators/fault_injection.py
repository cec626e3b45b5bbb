"""Makes an instance fail, for a drill."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.drill import choose_victim, source_offsets
from airflow_provider.operators.control import ControlOperator

__all__ = ["InjectFaultOperator"]


class InjectFaultOperator(ControlOperator):
    """Has an instance kill its whole process group with SIGKILL, as a crash or a lost host would.

    It does not wait for the end. It is not retried: a second try would make a second instance fail.

    Args:
        application_id: the application.
        instance: the instance's name; None takes the one with the most active tasks.
        kwargs: see `ControlOperator`.

    Returns:
        ``instance``, ``incarnation``, ``generation``, ``tasks``, ``source_offsets`` by task as last told before, and
        ``injected_at_ms``.

    Raises:
        AssignmentError: nothing is assigned yet.
        InstanceError: no instance lives, or the named one does not.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance")

    def __init__(self, *, application_id: str, instance: str | None = None, retries: int = 0, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, retries=retries, **kwargs)
        self.instance = instance

    def execute(self, context: Context) -> dict[str, Any]:
        """Choose and command."""
        view = self.hook.read(self.application_id)
        victim = choose_victim(view, view.healthy(float(self.instance_timeout_s)), self.instance or None)
        incarnation = view.statuses[victim].incarnation
        kill = Command(f"kill/{context['run_id']}/{self.task_id}", CommandKind.KILL, victim, incarnation)
        self.hook.write(self.application_id, kill)
        self.log.info("Told %s (incarnation %d) to kill itself", victim, incarnation)
        assignment = view.assignment
        return {
            "instance": victim,
            "incarnation": incarnation,
            "generation": assignment.generation if assignment else 0,
            "tasks": list(assignment.active_on(victim)) if assignment else [],
            "source_offsets": {str(task): offset for task, offset in source_offsets(view).items()},
            "injected_at_ms": time.time_ns() // 1_000_000,
        }
