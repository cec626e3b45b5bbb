"""What lies ahead and is not as promised, each with what is done about it: a pure function of the forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.forecast import Outlook
from airflow_provider.control.outlook.metrics_forecasts import MetricsForecasts, days, mib
from airflow_provider.control.outlook.slo import Slo


class FindingKind(Enum):
    """What a finding is about."""

    DISK_FULL = "disk_full"
    """An instance's disk will have too little left."""
    REPLAY_TOO_LONG = "replay_too_long"
    """A failover that replays a whole changelog takes, or will take, too long."""
    CHANGELOG_GROWTH = "changelog_growth"
    """A changelog grows faster than is allowed."""


@dataclass(frozen=True, kw_only=True)
class ForecastFinding:
    """One thing that is not as promised.

    Args:
        kind: see `FindingKind`.
        problem: what was found, and what is promised.
        fix: what a person does about it, with the command.
        instance: whose disk it is; None where it is about a task.
        task: which one; None where it is about a disk.
        in_s: seconds until it is so; 0 where it is.
    """

    kind: FindingKind
    problem: str
    fix: str
    instance: str | None = None
    task: TaskId | None = None
    in_s: float = 0.0

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.problem} {self.fix}"


def forecast_findings(
    application_id: str, forecasts: MetricsForecasts, slo: Slo, num_standby_replicas: int
) -> tuple[ForecastFinding, ...]:
    """What is not as promised. Where there are not enough records, nothing is found.

    A disk that has too little left now is no forecast: `slo.missed_promises` says so, by the newest heartbeat.

    Args:
        forecasts: made for the limits of `slo`.
        slo: what is promised.
        num_standby_replicas: wanted standbys per task.
    """
    return (
        *_of_disks(application_id, forecasts, slo),
        *_of_replays(application_id, forecasts, slo, num_standby_replicas),
        *_of_growth(application_id, forecasts, slo),
    )


def _of_disks(application_id: str, forecasts: MetricsForecasts, slo: Slo) -> Iterator[ForecastFinding]:
    for name, disk in forecasts.disks.items():
        if disk.outlook is Outlook.AHEAD and disk.within(slo.forecast_s):
            limit = "is full" if disk.limit <= 0 else f"has less than the promised {mib(disk.limit)} left"
            yield ForecastFinding(
                kind=FindingKind.DISK_FULL,
                problem=f"{name}'s disk {limit} in {days(disk.in_s or 0.0)}: it has {mib(disk.value or 0.0)} free and "
                f"loses {mib(-(disk.per_day or 0.0))} a day.",
                fix="Give it more room; or add an instance (the scale DAG, or 'stateful-streams run') and share the "
                f"tasks out: stateful-streams assign {application_id} --balance",
                instance=name,
                in_s=disk.in_s or 0.0,
            )


def _of_replays(
    application_id: str, forecasts: MetricsForecasts, slo: Slo, num_standby_replicas: int
) -> Iterator[ForecastFinding]:
    if slo.replay_rto_s is None:
        return
    for task_id, replay in forecasts.replays.items():
        if replay.within(slo.forecast_s):
            now = replay.outlook is Outlook.REACHED
            when = "takes" if now else f"will take, in {days(replay.in_s or 0.0)},"
            yield ForecastFinding(
                kind=FindingKind.REPLAY_TOO_LONG,
                problem=f"a failover of task {task_id} without a copy {when} longer than the {slo.replay_rto_s:g} s "
                f"that are promised: {replay.value or 0.0:,.1f} s today.",
                fix=f"Keep a copy more (num_standby_replicas={num_standby_replicas + 1}), so that none has to be "
                f"replayed: stateful-streams assign {application_id} --standbys {num_standby_replicas + 1}",
                task=task_id,
                in_s=replay.in_s or 0.0,
            )


def _of_growth(application_id: str, forecasts: MetricsForecasts, slo: Slo) -> Iterator[ForecastFinding]:
    limit = slo.changelog_records_per_day
    for task_id, growth in forecasts.growths.items():
        if limit is not None and growth.records_per_day is not None and growth.records_per_day > limit:
            yield ForecastFinding(
                kind=FindingKind.CHANGELOG_GROWTH,
                problem=f"the changelog of task {task_id} grows by {growth.records_per_day:,.0f} records a day, "
                f"{limit:,.0f} are promised.",
                fix="Look whether its source gets more, or the job writes keys that do not change: stateful-streams "
                f"metrics {application_id} --since 24h",
                task=task_id,
            )
