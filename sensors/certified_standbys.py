"""Waits until standbys were found to hold what their actives do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.bases.arguments import parse_if_given, parse_seconds, parse_whole
from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.waiting.conditions import Condition, StandbysWarm
from airflow_provider.sensors.control import ControlSensor


class CertifiedStandbysSensor(ControlSensor):
    """Waits until every task runs and has its standbys, warm and certified: found to hold what its active's store did.

    Args:
        num_standby_replicas: how many certified standbys a task must have.
        tasks: the application's tasks, such as ``0_3``; None for all.
        max_age_s: how long ago a standby may have been found so, in seconds; None for since its process began.
        kwargs: see `ControlSensor`.

    Returns:
        ``generation``, ``lag_records`` by task and instance.

    Raises:
        InstanceError: a task failed.
        DeadlineError: it took too long; says which task lacks what.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "num_standby_replicas", "tasks", "max_age_s")

    def __init__(
        self,
        *,
        application_id: str,
        num_standby_replicas: int | str = 1,
        tasks: TaskId | str | Sequence[TaskId | str] | None = None,
        max_age_s: float | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.num_standby_replicas = num_standby_replicas
        self.tasks = tasks
        self.max_age_s = max_age_s

    def condition(self) -> Condition:
        """What to wait for."""
        return StandbysWarm(
            num_standby_replicas=parse_whole("num_standby_replicas", self.num_standby_replicas),
            tasks=None if self.tasks is None else parse_tasks(self.tasks),
            certified=True,
            certified_within_s=parse_if_given(parse_seconds, "max_age_s", self.max_age_s),
        )
