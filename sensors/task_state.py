"""Waits until a task is in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.common.task_id import TaskId, parse_task
from airflow_provider.control.records.status import TaskState
from airflow_provider.control.waiting.conditions import Condition, TaskInState
from airflow_provider.sensors.control import ControlSensor


class TaskStateSensor(ControlSensor):
    """Waits until a task of the application is in one of some states, on its active or on a named instance.

    Args:
        task: the application's task, such as ``0_3`` (not an Airflow task).
        states: ``owning``, ``restoring``, ``running``, ``following``, ``failed``, ``closed``: one or several.
        instance: where; None for the assigned active.
        kwargs: see `ControlSensor`.

    Returns:
        ``task``, ``instance``, ``state``.

    Raises:
        DeadlineError: it took too long; says what was last seen.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "task", "states", "instance")

    def __init__(
        self,
        *,
        application_id: str,
        task: TaskId | str,
        states: str | Sequence[str] = ("running",),
        instance: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.task = task
        self.states = states
        self.instance = instance

    def condition(self) -> Condition:
        """What to wait for."""
        states = self.states.split(",") if isinstance(self.states, str) else self.states
        return TaskInState(parse_task(self.task), tuple(TaskState(s.strip()) for s in states), self.instance or None)
