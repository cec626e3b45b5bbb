"""Waits until standbys are near the end of their changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.bases.arguments import parse_if_given, parse_seconds, parse_whole
from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.waiting.conditions import Condition, StandbysWarm
from airflow_provider.sensors.control import ControlSensor


class StandbyLagSensor(ControlSensor):
    """Waits until every task runs and has its standbys, each warm and within the bounds.

    Warm means: it has seen the end of its changelog, its instance lives, and the assignment names it.

    Args:
        num_standby_replicas: how many such standbys a task must have.
        tasks: the tasks, such as ``0_3``; None for all.
        max_lag_records: the bound in records; None sets none.
        max_lag_s: the bound in seconds; None sets none.
        certified: count a standby only when its store was found to hold what its active's did.
        kwargs: see `ControlSensor`.

    Returns:
        ``generation``, and ``lag_records`` by task and instance.

    Raises:
        InstanceError: a task failed.
        DeadlineError: it took too long; says which task lacks what.
    """

    template_fields: Sequence[str] = (
        *ControlSensor.template_fields, "num_standby_replicas", "tasks", "max_lag_records", "max_lag_s"
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        num_standby_replicas: int = 1,
        tasks: TaskId | str | Sequence[TaskId | str] | None = None,
        max_lag_records: int | None = None,
        max_lag_s: float | None = None,
        certified: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.num_standby_replicas = num_standby_replicas
        self.tasks = tasks
        self.max_lag_records = max_lag_records
        self.max_lag_s = max_lag_s
        self.certified = certified

    def condition(self) -> Condition:
        """What to wait for."""
        return StandbysWarm(
            num_standby_replicas=parse_whole("num_standby_replicas", self.num_standby_replicas),
            tasks=None if self.tasks is None else parse_tasks(self.tasks),
            max_lag_records=parse_if_given(parse_whole, "max_lag_records", self.max_lag_records),
            max_lag_s=parse_if_given(parse_seconds, "max_lag_s", self.max_lag_s),
            certified=self.certified,
        )
