"""Waits until changelogs grow no faster than is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow_provider.bases.arguments import parse_seconds, parse_whole
from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.waiting.conditions import ChangelogGrowthWithin, Condition
from airflow_provider.sensors.control import ControlSensor

_DAY_S: Final = 86_400.0


class ChangelogGrowthSensor(ControlSensor):
    """Waits until the changelog of each task grows by no more than so many records a day, before compaction.

    It goes by the application's metrics (see `airflow_provider.control.outlook.metrics_forecasts`), read again every
    20 s, and waits while they are too few to say.

    Args:
        max_records_per_day: the bound, for each task.
        window_s: by the records of so many seconds back; at least an hour of them is needed.
        tasks: the application's tasks, such as ``0_3``; None for all.
        kwargs: see `ControlSensor`.

    Returns:
        ``records_per_day`` by task.

    Raises:
        DeadlineError: it took too long; says which task's grows by how much.
        TopicMissingError: the application has no metrics topic.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "max_records_per_day", "window_s", "tasks")

    def __init__(
        self,
        *,
        application_id: str,
        max_records_per_day: int | str,
        window_s: float | str = _DAY_S,
        tasks: TaskId | str | Sequence[TaskId | str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.max_records_per_day = max_records_per_day
        self.window_s = window_s
        self.tasks = tasks

    def condition(self) -> Condition:
        """What to wait for."""
        return ChangelogGrowthWithin(
            max_records_per_day=parse_whole("max_records_per_day", self.max_records_per_day),
            window_s=parse_seconds("window_s", self.window_s),
            tasks=None if self.tasks is None else parse_tasks(self.tasks),
        )
