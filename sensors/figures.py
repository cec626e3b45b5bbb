"""Sensors on figures: lags, certified standbys, growth of changelogs, predicted RTO, room on disks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow_provider.bases.arguments import parse_if_given, parse_names, parse_seconds, parse_whole
from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.outlook.predicted_rto import rto_basis
from airflow_provider.control.waiting.evaluation import Condition
from airflow_provider.control.waiting.figures import (
    ChangelogGrowthWithin,
    DiskSpaceFree,
    PredictedRtoWithin,
    SourceLagWithin,
)
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
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
        restarted_later: instances whose failed tasks are left out, because they are to be restarted after this.

    Returns:
        ``generation``, and ``lag_records`` by task and instance.

    Raises:
        InstanceError: a task failed.
        DeadlineError: it took too long; says which task lacks what.
    """

    template_fields: Sequence[str] = (
        *ControlSensor.template_fields, "num_standby_replicas", "tasks", "max_lag_records", "max_lag_s",
        "restarted_later",
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
        restarted_later: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.num_standby_replicas = num_standby_replicas
        self.tasks = tasks
        self.max_lag_records = max_lag_records
        self.max_lag_s = max_lag_s
        self.certified = certified
        self.restarted_later = restarted_later

    def condition(self) -> Condition:
        return StandbysWarm(
            num_standby_replicas=parse_whole("num_standby_replicas", self.num_standby_replicas),
            tasks=None if self.tasks is None else parse_tasks(self.tasks),
            max_lag_records=parse_if_given(parse_whole, "max_lag_records", self.max_lag_records),
            max_lag_s=parse_if_given(parse_seconds, "max_lag_s", self.max_lag_s),
            certified=self.certified,
            restarted_later=tuple(self.restarted_later),
        )


class SourceLagSensor(ControlSensor):
    """Waits until tasks run and the source of each holds no more than so many unread records.

    Args:
        max_lag_records: the bound; 0 for all read.
        tasks: the application's tasks, such as ``0_3``; None for all.

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
        return SourceLagWithin(
            max_lag_records=parse_whole("max_lag_records", self.max_lag_records),
            tasks=None if self.tasks is None else parse_tasks(self.tasks),
        )


class CertifiedStandbysSensor(ControlSensor):
    """Waits until every task runs and has its standbys, warm and certified: found to hold what its active's store did.

    Args:
        num_standby_replicas: how many certified standbys a task must have.
        tasks: the application's tasks, such as ``0_3``; None for all.
        max_age_s: how long ago a standby may have been found so, in seconds; None for since its process began.

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
        return StandbysWarm(
            num_standby_replicas=parse_whole("num_standby_replicas", self.num_standby_replicas),
            tasks=None if self.tasks is None else parse_tasks(self.tasks),
            certified=True,
            certified_within_s=parse_if_given(parse_seconds, "max_age_s", self.max_age_s),
        )


_DAY_S: Final = 86_400.0


class ChangelogGrowthSensor(ControlSensor):
    """Waits until the changelog of each task grows by no more than so many records a day, before compaction.

    It goes by the application's metrics (see `airflow_provider.control.outlook.metrics_forecasts`), read again every
    20 s, and waits while they are too few to say.

    Args:
        max_records_per_day: the bound, for each task.
        window_s: by the records of so many seconds back; at least an hour of them is needed.
        tasks: the application's tasks, such as ``0_3``; None for all.

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
        return ChangelogGrowthWithin(
            max_records_per_day=parse_whole("max_records_per_day", self.max_records_per_day),
            window_s=parse_seconds("window_s", self.window_s),
            tasks=None if self.tasks is None else parse_tasks(self.tasks),
        )


class PredictedRtoSensor(ControlSensor):
    """Waits until the predicted RTO of every task is within a bound.

    It predicts (see `airflow_provider.control.outlook.predicted_rto`) by the history as it was when the
    sensor began, or at each poke, and by the lags of now.

    Args:
        max_rto_s: the bound, in seconds.

    Returns:
        ``predicted_rto_ms`` by task.

    Raises:
        DeadlineError: it took too long; says which task would take how long, and why.
        TopicMissingError: the application has no history.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "max_rto_s")

    def __init__(self, *, application_id: str, max_rto_s: float | str, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.max_rto_s = max_rto_s

    def condition(self) -> Condition:
        history = KafkaStreamsHook(self.kafka_conn_id).read_history(self.application_id)
        return PredictedRtoWithin(
            max_rto_s=parse_seconds("max_rto_s", self.max_rto_s), basis=rto_basis(history, {}, self.timeouts)
        )


class DiskSpaceSensor(ControlSensor):
    """Waits until each instance has so much disk left where it keeps its stores.

    Args:
        min_free_bytes: how much each must have left.
        instances: which; None for all that are assigned.

    Returns:
        ``free_bytes`` by instance.

    Raises:
        DeadlineError: it took too long; says which instance has how much.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "min_free_bytes", "instances")

    def __init__(
        self,
        *,
        application_id: str,
        min_free_bytes: int | str,
        instances: str | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.min_free_bytes = min_free_bytes
        self.instances = instances

    def condition(self) -> Condition:
        return DiskSpaceFree(
            min_free_bytes=parse_whole("min_free_bytes", self.min_free_bytes),
            instances=parse_if_given(parse_names, "instances", self.instances),
        )
