"""A restore's progress, in one line for people."""

from __future__ import annotations

from airflow_provider.control.records.status import RestorePhase, TaskStatus


def progress_line(task: TaskStatus) -> str | None:
    """Phase, records and bytes done and left, rate, forecast; None for a task that has nothing left to restore.

    ::

        1,204,000 of 2,000,020 records (60 %), 139.7 of 232.0 MB, 410,000 records/s, done in 2 s
    """
    if task.restore.phase is RestorePhase.SNAPSHOT:
        return "snapshot: being fetched"
    left = task.lag_records
    if task.restore.phase is None or not left:
        return None
    done = task.restore.records
    share = 100 * done // (done + left)
    line = f"{task.restore.phase.value}: {done:,} of {done + left:,} records ({share} %)"
    if task.restore.bytes_left is not None:
        line += f", {_mb(task.restore.bytes)} of {_mb(task.restore.bytes + task.restore.bytes_left)} MB"
    if task.restore.records_per_s:
        line += f", {task.restore.records_per_s:,.0f} records/s"
    if task.restore.remaining_s is not None:
        line += f", done in {_duration(task.restore.remaining_s)}"
    return line


def _mb(number: int) -> str:
    return f"{number / 1e6:,.1f}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
