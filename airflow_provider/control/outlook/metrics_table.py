"""The figures of an application's instances as tables for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from airflow_provider.common.table import mib, number, table, utc_cell
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.metrics import MetricsRecord, TaskMetrics
from airflow_provider.control.records.status import Role

_INSTANCE = ("instance", "newest (UTC)", "host", "stores", "disk free", "tasks", "records kept")
_TASK = (
    "task", "instance", "role", "state", "processed/s", "source lag", "changelog end", "grown/h", "lag", "lag s",
    "store", "restored/s", "timers",
)  # fmt: skip
_HOUR_MS = 3_600_000


def metrics_table(records: Sequence[MetricsRecord], assignment: Assignment | None = None) -> str:
    """Two tables of the newest record of each instance: the instances, and their tasks.

    What an instance said of a task that it is not assigned any more is over: one that was lost says no other word.

    ``processed/s`` and ``grown/h`` (changelog offsets) are means over the records that are given, as far back as the
    same process had the task in the same role; ``-`` is not known.

    Args:
        records: the oldest first.
        assignment: the newest; None where it is not known, and every copy counts that was recorded.
    """
    if not records:
        return "no metrics"
    newest = {record.instance: _assigned(record, assignment) for record in records}
    counts = {name: sum(record.instance == name for record in records) for name in newest}
    instances = [_instance_row(record, counts[name]) for name, record in sorted(newest.items())]
    tasks = sorted(
        ((task, record) for record in newest.values() for task in record.tasks),
        key=lambda pair: (pair[0].task, pair[0].role is Role.STANDBY, pair[1].instance),
    )
    return f"{table(_INSTANCE, instances)}\n\n{table(_TASK, [_task_row(task, at, records) for task, at in tasks])}"


def _assigned(record: MetricsRecord, assignment: Assignment | None) -> MetricsRecord:
    if assignment is None:
        return record
    return dataclasses.replace(record, tasks=tuple(task for task in record.tasks if _counts(record, task, assignment)))


def _counts(record: MetricsRecord, task: TaskMetrics, assignment: Assignment) -> bool:
    given = assignment.tasks.get(task.task)
    if given is None:
        return False
    if task.role is Role.ACTIVE:
        return given.active == record.instance
    return record.instance in (given.active, *given.standbys)


def _instance_row(record: MetricsRecord, count: int) -> Sequence[str]:
    return (
        record.instance,
        utc_cell(record.at_ms),
        record.host or "-",
        mib(record.disk_used_bytes),
        mib(record.disk_free_bytes),
        str(len(record.tasks)),
        f"{count:,}",
    )


def _task_row(task: TaskMetrics, newest: MetricsRecord, records: Sequence[MetricsRecord]) -> Sequence[str]:
    processed_per_s, grown_per_h = _rates(task, newest, records)
    is_active = task.role is Role.ACTIVE
    return (
        str(task.task),
        newest.instance,
        task.role.value,
        task.state.value,
        number(processed_per_s) if is_active else "-",
        number(task.source_lag_records) if is_active else "-",
        number(task.changelog_end),
        number(grown_per_h),
        number(task.lag_records),
        "-" if task.lag_s is None else f"{task.lag_s:.1f}",
        mib(task.store_bytes),
        number(task.restored_records_per_s),
        number(TimerCount.sum_of(task.timers.values()).number) if task.timers else "-",
    )


def _rates(
    task: TaskMetrics, newest: MetricsRecord, records: Sequence[MetricsRecord]
) -> tuple[float | None, float | None]:
    """Input records a second and changelog offsets an hour."""
    for record in records:
        if (record.instance, record.incarnation) != (newest.instance, newest.incarnation):
            continue
        first = next((one for one in record.tasks if one.task == task.task), None)
        passed_ms = newest.at_ms - record.at_ms
        if first is None or (first.role, first.generation) != (task.role, task.generation) or passed_ms <= 0:
            continue
        grown = None
        if first.changelog_end is not None and task.changelog_end is not None:
            grown = (task.changelog_end - first.changelog_end) * _HOUR_MS / passed_ms
        return (task.processed_records - first.processed_records) * 1000 / passed_ms, grown
    return None, None
