"""What the driver tells a worker with every call."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.changelog.table_range import TableRange
from airflow_provider.control.status import Role
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming.error_policy import ErrorPolicy
from airflow_provider.streaming.json_decoder import JsonDecoder
from airflow_provider.streaming.operation import Operation
from airflow_provider.streaming.settings import InstanceSettings

__all__ = ["JobSpec", "SlotPlan", "TaskPlan"]


@dataclass(frozen=True)
class JobSpec:
    """What a worker has to know of the job.

    Args:
        application_id: the application.
        source_topic: whose partition *i* task *i* processes.
        sink_topic: where the output goes; None for none.
        store: the store's name.
        key_name: the key column's name.
        operation: the keyed stateful operation.
        filters: names of the counting filters, in order.
        num_tasks: partitions of source and changelog.
        rocksdb: the stores' settings.
        delete_retention_ms: of the changelog.
        transaction_timeout_ms: of the tasks' producers.
        error_policy: what becomes of a record that cannot be processed.
        decoder: decodes the values in the worker; None when Spark has decoded them.
        certify_interval_s: between two comparisons of a standby's store with its active's; None for never.
        snapshots: where standbys' stores are copied to; None for nowhere.
        restore: how a restore may use the machine.
    """

    application_id: str
    source_topic: str
    sink_topic: str | None
    store: str
    key_name: str
    operation: Operation
    filters: tuple[str, ...]
    num_tasks: int
    rocksdb: RocksDBOptions
    delete_retention_ms: int
    transaction_timeout_ms: int
    error_policy: ErrorPolicy = field(default_factory=ErrorPolicy)
    decoder: JsonDecoder | None = None
    certify_interval_s: float | None = 600.0
    snapshots: SnapshotSettings | None = None
    restore: RestoreSettings = field(default_factory=RestoreSettings)


@dataclass(frozen=True)
class TaskPlan:
    """What to be for a task.

    Args:
        task: its number.
        role: active or standby.
        generation: an active's ``active_since``.
        replay: id of the command that asks to restore the store afresh; None for none. Obeyed once.
        ranges: table files to restore from, the next one first, as they get ready; None for reading the changelog.
        has_standbys: whether another instance holds a copy. Then an active whose store is lost fails the task, so that
            the copy takes over, instead of making everybody wait while it restores its own.
    """

    task: int
    role: Role
    generation: int
    replay: str | None = None
    has_standbys: bool = False
    ranges: tuple[TableRange, ...] | None = None


@dataclass(frozen=True)
class SlotPlan:
    """Everything that a call into a worker needs; the newest is the truth, whatever the worker held before.

    Args:
        settings: of the instance.
        job: of the job.
        slot: the worker's slot.
        tasks: what to be for each task; a task that is not named is let go.
        budget_s: how long a call may follow changelogs.
        rows_of: tasks whose rows this call may process. A query that skipped rows of a task once, because the task
            failed, must never process later ones: they would be a gap. A new query begins where the task stopped.
        max_deaths: how many workers may end in the middle of the same batch of a task before the task fails.
    """

    settings: InstanceSettings
    job: JobSpec
    slot: int
    tasks: tuple[TaskPlan, ...]
    budget_s: float
    rows_of: tuple[int, ...] = ()
    max_deaths: int = 3
