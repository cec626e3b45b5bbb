"""Waits until tasks have read their source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.bases.arguments import parse_whole
from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.waiting.conditions import Condition, SourceLagWithin
from airflow_provider.sensors.control import ControlSensor


class SourceLagSensor(ControlSensor):
    """Waits until tasks run and the source of each holds no more than so many unread records.

    Args:
        max_lag_records: the bound; 0 for all read.
        tasks: the application's tasks, such as ``0_3``; None for all.
        kwargs: see `ControlSensor`.

    Returns:
        ``lag_records`` by task.

    Raises:
        InstanceError: a task failed.
        DeadlineError: it took too long; says which task has how many.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "max_lag_records", "tasks")

    def __init__(
        self,
        *,
        application_id: str,
        max_lag_records: int | str = 0,
        tasks: TaskId | str | Sequence[TaskId | str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.max_lag_records = max_lag_records
        self.tasks = tasks

    def condition(self) -> Condition:
        """What to wait for."""
        return SourceLagWithin(
            max_lag_records=parse_whole("max_lag_records", self.max_lag_records),
            tasks=None if self.tasks is None else parse_tasks(self.tasks),
        )
