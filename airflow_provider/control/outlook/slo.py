"""What an application promises, and whether it keeps it: now, by its last drill, and as its figures go on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from airflow_provider.common.table import mib
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.open_problems import open_incidents
from airflow_provider.control.outlook.forecast import Outlook
from airflow_provider.control.outlook.losses import Losses, by_task
from airflow_provider.control.outlook.metrics_forecasts import MetricsForecasts, days
from airflow_provider.control.outlook.predicted_rto import PredictedRto
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord
from airflow_provider.control.records.status import InstanceStatus, TaskState, TaskStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError

_FROM_NONE = frozenset({"late_per_hour", "left_out_per_hour"})


@dataclass(frozen=True, kw_only=True)
class Slo:
    """What an application promises. What is None is not checked.

    Args:
        rto_s: seconds from a failure to the first commit of the last task's next owner; measured by drills, and
            predicted from the failovers on record.
        lag_s: seconds that a standby may be behind its active.
        source_lag_records: records that a task's source may hold unread.
        disk_free_bytes: bytes that must be free where an instance keeps its stores.
        drill_age_s: seconds since a drill was passed last.
        absence_s: seconds that an instance may be away and still go on from its stores: changelogs have to keep
            deletions for as long.
        forecast_s: seconds ahead: a disk that will have too little left within them (none, or less than
            ``disk_free_bytes``), or a replay that will take longer than ``replay_rto_s``, is a missed promise now.
        replay_rto_s: seconds from a failure to the first commit of a next owner that has to replay the whole changelog,
            because no copy of the task is left.
        changelog_records_per_day: records that the changelog of a task may gain in a day, before compaction.
        late_per_hour: records that may be left out within an hour because they came too late, of all tasks together; 0
            allows none.
        left_out_per_hour: records that may be left out within an hour because they could not be processed, whether they
            become dead letters or are only counted; of all tasks together; 0 allows none.

    Raises:
        ConfigurationError: a limit is no number above zero, or, of the last two, of zero or more.
    """

    rto_s: float | None = None
    lag_s: float | None = None
    source_lag_records: int | None = None
    disk_free_bytes: int | None = None
    drill_age_s: float | None = None
    absence_s: float | None = None
    forecast_s: float | None = None
    replay_rto_s: float | None = None
    changelog_records_per_day: int | None = None
    late_per_hour: int | None = None
    left_out_per_hour: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            least = "of 0 or more" if name in _FROM_NONE else "above 0"
            if value is not None and not (number and (value > 0 or (value == 0 and name in _FROM_NONE))):
                raise ConfigurationError(f"Slo has {name}={value!r}: use a number {least}, or leave it out.")

    @classmethod
    def parse(cls, limits: Mapping[str, Any]) -> Self:
        """Of limits by name, of which each may be a text, as templates render numbers.

        Raises:
            ConfigurationError: there is no such limit, or it is no such number.
        """
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in limits if name not in known]:
            raise ConfigurationError(f"Slo has no limit {unknown[0]!r}: use {', '.join(known)}.")
        return cls(**{name: _number(value) for name, value in limits.items()})

    @property
    def limits(self) -> dict[str, float]:
        """Those that are set, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


def _number(value: Any) -> Any:
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value


def missed_promises(
    view: ControlView,
    slo: Slo,
    num_standby_replicas: int,
    silent_for_s: Mapping[str, float],
    timeouts: Timeouts,
    predicted: Collection[PredictedRto] = (),
    losses: Mapping[TaskId, Losses] | None = None,
) -> tuple[str, ...]:
    """What is not as promised, a line each, with figures and what to do.

    Args:
        silent_for_s: by instance, for how long no heartbeat came while somebody listened.
    """
    if view.assignment is None:
        return (f"{view.application_id} was never deployed: run its deploy DAG.",)
    found = [
        f"{incident.kind.value}: {incident.evidence}. The failover DAG has not answered it: look whether that is "
        "unpaused, its file parses and a triggerer runs."
        for incident in detect(view.assignment, view.statuses, silent_for_s, timeouts)
        if incident.id not in view.incidents
    ]
    found += open_incidents(view)
    advice = "Look at the standbys' instances, and deploy or repair."
    if view.unresolved_incidents:
        advice = "The repair that is not over gives them back."
    for task_id, assigned in view.assignment.tasks.items():
        active = view.statuses[assigned.active].task(task_id) if assigned.active in view.statuses else None
        found += _of_active(str(task_id), assigned.active, active, slo)
        copies = {name: view.statuses[name].task(task_id) for name in assigned.standbys if name in view.statuses}
        warm = [name for name, copy in copies.items() if copy is not None and _near(copy, slo)]
        found += [
            f"task {task_id} has no standby on {name} any more: {copy.error}. "
            + (
                "It has failed, and is tried again by itself: correct that."
                if copy.tried_again
                else "It has failed and is not tried again, and no repair helps: correct that, then deploy "
                f"{name} again."
            )
            for name, copy in copies.items()
            if copy is not None and copy.held_standby
        ]
        if len(warm) < num_standby_replicas:
            lags = ", ".join(f"{name} {_lag(copy)}" for name, copy in copies.items()) or "none is assigned"
            found.append(
                f"task {task_id} has {len(warm)} of {num_standby_replicas} warm standbys ({lags}): a failure now would "
                f"take longer. {advice}"
            )
    found += [line for one in predicted if (line := _of_prediction(one, slo)) is not None]
    found += _of_losses(losses or {}, slo)
    for name in view.assignment.instances:
        if name in view.statuses:
            if view.statuses[name].paused:
                found.append(f"{name} is paused, so its tasks process nothing: resume it by the operate DAG.")
            found += _of_disk(name, view.statuses[name], slo)
    return tuple(found)


def _of_active(task: str, name: str | None, active: TaskStatus | None, slo: Slo) -> Iterator[str]:
    if active is None or active.state is not TaskState.RUNNING:
        state = "has no active instance" if name is None else f"does not run on {name}"
        yield f"task {task} {state}" + (f": {active.error}" if active is not None and active.error else ".")
        return
    if active.error is not None:
        yield f"task {task} runs on {name} with an error: {active.error}"
    lag, limit = active.source.lag_records, slo.source_lag_records
    if limit is not None and lag is not None and lag > limit:
        yield (
            f"task {task} on {name} has {lag:,} records of its source unread, {limit:,} are allowed: it processes "
            f"{active.records_per_s:,.0f} records/s."
        )


def _of_prediction(one: PredictedRto, slo: Slo) -> str | None:
    """One by defaults alone is no reason for an alarm; a task that no instance could take has a line of its own."""
    total_ms = one.total_ms if one.measured else None
    if slo.rto_s is None or total_ms is None or total_ms <= 1000 * slo.rto_s:
        return None
    return (
        f"a failure now would take longer than the {slo.rto_s:g} s that are promised: {one}. Look at the longest part: "
        "a standby's lag, or the settings of Airflow by which failures are detected and answered."
    )


def _of_losses(losses: Mapping[TaskId, Losses], slo: Slo) -> Iterator[str]:
    late = {task: one.late for task, one in losses.items()}
    if slo.late_per_hour is not None and sum(late.values()) > slo.late_per_hour:
        yield (
            f"{sum(late.values()):,} records came too late within an hour and were left out, {slo.late_per_hour:,} are "
            f"allowed ({by_task(late)}): look whether a partition of the source or a task before them was far behind, "
            "or give the source a longer watermark."
        )
    left_out = {task: one.left_out for task, one in losses.items()}
    if slo.left_out_per_hour is not None and sum(left_out.values()) > slo.left_out_per_hour:
        yield (
            f"{sum(left_out.values()):,} records could not be processed within an hour and were left out, "
            f"{slo.left_out_per_hour:,} are allowed ({by_task(left_out)}): look at the dead letters, or at the "
            "instances' logs, and inform who writes them."
        )


def _of_disk(name: str, status: InstanceStatus, slo: Slo) -> Iterator[str]:
    free, limit = status.disk.free_bytes, slo.disk_free_bytes
    if limit is not None and free is not None and free < limit:
        yield (
            f"{name} has {mib(free, 0)} free at {status.disk.folder} on {status.stores_host}, "
            f"{mib(limit, 0)} are promised; its stores take {mib(status.disk.used_bytes, 0)}."
        )


def _near(copy: TaskStatus, slo: Slo) -> bool:
    if not copy.ready:
        return False
    return slo.lag_s is None or (copy.lag_s is not None and copy.lag_s <= slo.lag_s)


def _lag(copy: TaskStatus | None) -> str:
    if copy is None:
        return "does not hold it"
    if copy.held_standby:
        return "has failed"
    if copy.error is not None:
        return f"has an error: {copy.error}"
    seconds = "an unknown time" if copy.lag_s is None else f"{copy.lag_s:.1f} s"
    return f"is {copy.state.value}, {seconds} behind"


_DAY_S = 86_400


def passed_drill(records: Iterable[HistoryRecord]) -> HistoryRecord | None:
    """The drill that was passed last; None where none was."""
    passed = (r for r in records if r.kind is HistoryKind.DRILL and r.outcome is HistoryOutcome.PASSED)
    return max(passed, key=_ended_ms, default=None)


def drill_overdue(records: Iterable[HistoryRecord], max_age_s: float, now_ms: int) -> str | None:
    """What is wrong with the age of the last drill that was passed, in one line; None where it is young enough."""
    drills = [record for record in records if record.kind is HistoryKind.DRILL]
    newest = passed_drill(drills)
    passed = None if newest is None else _ended_ms(newest)
    if passed is not None and now_ms - passed <= 1000 * max_age_s:
        return None
    promised = f"one in {_days(max_age_s)} is promised"
    if passed is None:
        return f"no drill was ever passed, {promised}: run a drill DAG."
    last = max(drills, key=lambda drill: drill.at_ms)
    why = "" if last.outcome is HistoryOutcome.PASSED else f"; the last one was {last.outcome.value}: {last.reason}"
    return f"no drill was passed for {_days((now_ms - passed) / 1000)}, {promised}{why}. Look at the drill DAGs' runs."


def _ended_ms(drill: HistoryRecord) -> int:
    return drill.ended_at_ms or drill.at_ms


def _days(seconds: float) -> str:
    return f"{seconds / _DAY_S:.1f} days"


def missed_ahead(
    application_id: str, forecasts: MetricsForecasts, slo: Slo, num_standby_replicas: int
) -> Iterator[str]:
    """What will not be as promised, or grows faster, a line each with what to do. Too few records find nothing.

    A disk that has too little left now is no forecast: `missed_promises` says so, by the newest heartbeat.

    Args:
        forecasts: made for the limits of `slo`.
    """
    for name, disk in forecasts.disks.items():
        if disk.outlook is Outlook.AHEAD and disk.within(slo.forecast_s):
            limit = "is full" if disk.limit <= 0 else f"has less than the promised {mib(disk.limit)} left"
            yield (
                f"{name}'s disk {limit} in {days(disk.in_s or 0.0)}: it has {mib(disk.value or 0.0)} free and loses "
                f"{mib(-(disk.per_day or 0.0))} a day. Give it more room; or add an instance (the scale DAG, or "
                "'stateful-streams run') and share the tasks out: stateful-streams assign "
                f"{application_id} --balance"
            )
    for task_id, replay in forecasts.replays.items():
        if slo.replay_rto_s is not None and replay.within(slo.forecast_s):
            now = replay.outlook is Outlook.REACHED
            when = "takes" if now else f"will take, in {days(replay.in_s or 0.0)},"
            more = num_standby_replicas + 1
            yield (
                f"a failover of task {task_id} without a copy {when} longer than the {slo.replay_rto_s:g} s that are "
                f"promised: {replay.value or 0.0:,.1f} s today. Keep a copy more (num_standby_replicas={more}), so "
                f"that none has to be replayed: stateful-streams assign {application_id} --standbys {more}"
            )
    limit_per_day = slo.changelog_records_per_day
    for task_id, growth in forecasts.growths.items():
        per_day = growth.records_per_day or 0.0
        if limit_per_day is not None and per_day > limit_per_day:
            yield (
                f"the changelog of task {task_id} grows by {per_day:,.0f} records a day, "
                f"{limit_per_day:,.0f} are promised. Look whether its source gets more, or the job writes keys that do "
                f"not change: stateful-streams metrics {application_id} --since 24h"
            )
