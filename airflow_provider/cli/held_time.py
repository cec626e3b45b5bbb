"""What a task waits for that is no failure of its own: event time, or a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from airflow_provider.cli.text import ago
from airflow_provider.control.records.status import TableWaitStatus, TaskStatus

_WORTH_MS: Final = 60_000
"""Of two sides that are read side by side one is always a little behind."""


def held_time(task: TaskStatus) -> str | None:
    """What a task's watermark waits for; None where no side of a join holds it back by a minute or more.

    Args:
        task: an active one.
    """
    time = task.time
    if time.held_back_by is None or (time.held_back_ms is not None and time.held_back_ms < _WORTH_MS):
        return None
    if time.watermark_ms is None or time.held_back_ms is None:
        return f"task {task.task}: there is no watermark yet, because no row of {time.held_back_by!r} has come"
    at = datetime.fromtimestamp(time.watermark_ms / 1000, UTC).isoformat(timespec="seconds")
    return (
        f"task {task.task}: the watermark stands at {at}, because no later row of {time.held_back_by!r} has come; the "
        f"other side is {ago(time.held_back_ms)} further"
    )


def wait_text(wait: TableWaitStatus) -> str:
    """How long a task of a stream has been waiting for a table, for which of its tasks, and how far that is."""
    others = f" and {wait.others:,} more tasks are" if wait.others else " is"
    at = "the end of the log is not known" if wait.end is None else f"it has read {wait.offset or 0:,} of {wait.end:,}"
    return (
        f"for {wait.for_s:.0f} s until the table is read: task {wait.task}{others} behind in {wait.topic!r}, {at}; "
        f"nothing is lost, look at task {wait.task}"
    )
