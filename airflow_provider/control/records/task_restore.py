"""What a task's store was restored from, and how fast."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId


@dataclass(frozen=True, kw_only=True)
class TaskRestore:
    """One restore of one task's store.

    Args:
        instance: where.
        records: changelog records that were applied.
        bytes: the size of their keys and values.
        took_s: seconds that it took.
    """

    task: TaskId
    instance: str
    records: int
    bytes: int
    took_s: float
