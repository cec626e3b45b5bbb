"""What forecasts and checks ask of an instance at one time: a record a minute, for a week."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.json_codec import from_numbered_json, to_numbered_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import InstanceStatus, Role, TaskState, TaskStatus

METRICS_FORMAT: Final = 1
"""The newest format that this version reads, and the one that it writes."""


@dataclass(frozen=True, kw_only=True)
class TaskMetrics:
    """One task on one instance: ``docs/formats.md`` has its fields.

    Counters are what they have come to, so that a record that is missing loses nothing.
    """

    task: TaskId
    role: Role
    state: TaskState
    generation: int = 0
    processed_records: int = 0
    source_lag_records: int | None = None
    changelog_end: int | None = None
    store_bytes: int | None = None
    restoring: bool = False
    restored_records: int = 0
    restored_bytes: int = 0
    restore_took_s: float = 0.0
    late_records: int | None = None
    left_out_records: int | None = None


@dataclass(frozen=True, kw_only=True)
class MetricsRecord:
    """One instance at one time; kept in ``<app>-metrics`` under the instance's name (``docs/formats.md``).

    Args:
        at_ms: epoch ms: of its host as it is written, of the broker as it is read.
    """

    application_id: str
    instance: str
    incarnation: int
    at_ms: int
    host: str = ""
    disk_used_bytes: int = 0
    disk_free_bytes: int | None = None
    tasks: tuple[TaskMetrics, ...] = ()


def metrics_record(status: InstanceStatus, store_bytes: Mapping[TaskId, int], at_ms: int) -> MetricsRecord:
    """What of a status is kept for a week.

    Args:
        store_bytes: by task, what its store takes on disk, as far as it is known.
    """
    return MetricsRecord(
        application_id=status.application_id,
        instance=status.instance,
        incarnation=status.incarnation,
        at_ms=at_ms,
        host=status.stores_host,
        disk_used_bytes=status.disk.used_bytes,
        disk_free_bytes=status.disk.free_bytes,
        tasks=tuple(_of_task(task, store_bytes.get(task.task)) for task in status.tasks),
    )


def _of_task(task: TaskStatus, store_bytes: int | None) -> TaskMetrics:
    return TaskMetrics(
        task=task.task,
        role=task.role,
        state=task.state,
        generation=task.generation,
        processed_records=task.processed_records,
        source_lag_records=task.source.lag_records,
        changelog_end=task.end,
        store_bytes=store_bytes,
        restoring=task.restore.phase is not None,
        restored_records=task.restore.records,
        restored_bytes=task.restore.bytes,
        restore_took_s=task.restore.took_s,
        late_records=task.late_records,
        left_out_records=task.failed_records,
    )


def metrics_value(record: MetricsRecord) -> bytes:
    """JSON of a record, with the number of its format."""
    return to_numbered_json(record, METRICS_FORMAT)


def read_metrics_value(value: bytes, at_ms: int) -> MetricsRecord:
    """The inverse of `metrics_value`. Fields that this version does not know are ignored.

    Args:
        at_ms: when the brokers stored it, epoch ms.

    Raises:
        msgspec.DecodeError: it is no such record, or one of a newer format.
    """
    return dataclasses.replace(from_numbered_json(value, MetricsRecord, METRICS_FORMAT), at_ms=at_ms)
