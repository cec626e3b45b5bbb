"""What an instance reports of itself and its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider.common.store_signature import ROCKSDB
from airflow_provider.common.task_id import TaskId
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.control.records.task_state import Role as Role
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.control.records.task_state import TaskState as TaskState
from airflow_provider.error_decision import retry_pause_s
from airflow_provider.error_text import bounded, error_text


class InstanceState(Enum):
    """The life of one instance.

    ::

        STARTING ──> RUNNING ──> STOPPING ──> STOPPED      shut down cleanly
            │           │            │
            └───────────┴────────────┴──────> ENDED        the process ended otherwise (reported by its launcher)
    """

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ENDED = "ended"

    @property
    def alive(self) -> bool:
        """Whether the process exists, as far as it was reported."""
        return self not in (InstanceState.STOPPED, InstanceState.ENDED)


class RestorePhase(Enum):
    """What a restore is doing, until a store is first at the end of its changelog."""

    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"


@dataclass(frozen=True, kw_only=True)
class RestoreStatus:
    """The restore of a task's store that is under way, or the last one (``docs/formats.md``).

    Args:
        source: what the store was last restored from, when it was empty and snapshots are taken, and why not from a
            newer snapshot; None otherwise.
    """

    phase: RestorePhase | None = None
    records: int = 0
    bytes: int = 0
    bytes_left: int | None = None
    records_per_s: float = 0.0
    took_s: float = 0.0
    remaining_s: float | None = None
    source: str | None = None


@dataclass(frozen=True)
class CertificateStatus:
    """What comparisons of a standby's store with its active's found (``docs/formats.md``)."""

    position: int | None = None
    at_ms: int | None = None
    divergences: int = 0
    command: str | None = None


@dataclass(frozen=True)
class SnapshotStatus:
    """A standby's last snapshot (``docs/formats.md``)."""

    position: int | None = None
    at_ms: int | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableWaitStatus:
    """Which table a task of a stream waits for, which its rows are to meet (``docs/formats.md``).

    Args:
        topic: of the table, or one between two stages by which its rows come.
        task: which reads that and is behind; `others` of its stage are, too.
    """

    topic: str
    task: TaskId
    others: int = 0
    offset: int | None = None
    end: int | None = None
    for_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SourceStatus:
    """What the source holds for an active task, as its instance's driver asked the brokers (``docs/formats.md``).

    Args:
        lag_records: 0 where no record is among the offsets; None when unknown.
        stalled_s: 0 while it gets on, or has nothing to do. A call into its worker that is under way and not overdue
            does not count, nor does a wait for a table.
    """

    end: int | None = None
    lag_records: int | None = None
    uncommitted_records: int = 0
    stalled_s: float = 0.0
    gets_ready: bool = False
    waits_for: TableWaitStatus | None = None


@dataclass(frozen=True, kw_only=True)
class WorkStatus:
    """What an active task's processing took, since the instance got the task, and lately (``docs/formats.md``)."""

    commits: int = 0
    process_s: float = 0.0
    commit_s: float = 0.0
    commits_per_s: float = 0.0
    process_latency_ns: float | None = None
    commit_latency_ms: float | None = None
    lateness_avg_ms: float | None = None
    lateness_max_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class TimeStatus:
    """How far event time has got in an active task, as of its last commit (``docs/formats.md``).

    Args:
        held_back_by: of a join, the topic of the side by which time stands where it does; else behind an internal topic
            the task before it, such as ``task 0_3``; None where there is none.
        held_back_ms: by how much the other side, or the task that is furthest, is further; None where one of them has
            had no row yet.
    """

    watermark_ms: int | None = None
    held_back_by: str | None = None
    held_back_ms: int | None = None


@dataclass(frozen=True)
class FailureStatus:
    """What is wrong with a task.

    Args:
        message: its text; a long one is cut (`common.error_text`), because a status has to fit into a Kafka record.
    """

    kind: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", bounded(self.message))

    @classmethod
    def of(cls, error: Exception) -> FailureStatus:
        """Of an error that was raised."""
        return cls(type(error).__name__, error_text(error))


@dataclass(frozen=True, kw_only=True)
class FaultStatus:
    """The last fault of a drill that an instance holds over itself for a while, or reports the end of."""

    id: str
    over: bool = False
    restores: tuple[TaskRestore, ...] = ()
    failure: FailureStatus | None = None
    unmeasured: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskStatus:
    """One task on one instance, as of a heartbeat: ``docs/formats.md`` has its fields.

    Args:
        lost_records: each range of them is in that instance's log.
        failure: why it failed, or what is wrong although it works; None otherwise.
        store_kind: what keeps its store: ``rocksdb``, ``memory``, or ``module:Class`` of a user's.
        failed_s: None also where the instance's version does not report it.
    """

    task: TaskId
    role: Role
    state: TaskState
    generation: int = 0
    position: int | None = None
    end: int | None = None
    lag_records: int | None = None
    lag_s: float | None = None
    source_offset: int | None = None
    resumed_offset: int | None = None
    source: SourceStatus = field(default_factory=SourceStatus)
    committed_generation: int | None = None
    processed_records: int = 0
    records_per_s: float = 0.0
    work: WorkStatus = field(default_factory=WorkStatus)
    filtered_records: Mapping[str, int] = field(default_factory=dict)
    failed_records: int = 0
    late_records: int = 0
    timers: Mapping[str, TimerCount] = field(default_factory=dict)
    stream_time_ms: int | None = None
    time: TimeStatus = field(default_factory=TimeStatus)
    lost_records: int = 0
    owned_at_ms: int | None = None
    first_commit_at_ms: int | None = None
    restore: RestoreStatus = field(default_factory=RestoreStatus)
    certificate: CertificateStatus = field(default_factory=CertificateStatus)
    snapshot: SnapshotStatus = field(default_factory=SnapshotStatus)
    failure: FailureStatus | None = None
    store_kind: str = ROCKSDB
    memory_bytes: int | None = None
    fault: str | None = None
    replay: str | None = None
    failed_s: float | None = None

    @property
    def warm(self) -> bool:
        """Whether this is a standby copy that has seen the end of its changelog at least once."""
        following = self.role is Role.STANDBY and self.state is TaskState.FOLLOWING
        return following and self.lag_records is not None and self.restore.phase is None

    @property
    def ready(self) -> bool:
        """Whether a failover can count on this copy: it is warm, and nothing is wrong with it."""
        return self.warm and self.error is None

    @property
    def had_no_input(self) -> bool:
        """Whether its owner has had nothing to commit so far; what its source holds has to be known for that."""
        if self.state is not TaskState.RUNNING or self.error is not None or self.owned_at_ms is None:
            return False
        waiting = self.source.lag_records != 0 or self.source.uncommitted_records
        return self.first_commit_at_ms is None and not waiting

    @property
    def held_standby(self) -> bool:
        """Whether this is a standby copy that has failed: no repair helps."""
        return self.role is Role.STANDBY and self.state is TaskState.FAILED

    @property
    def tried_again(self) -> bool:
        """Whether a copy that has failed is tried again without a person; else by a newer generation or process."""
        return retry_pause_s(self.error_kind, 1) is not None

    def restore_on(self, instance: str) -> TaskRestore:
        """What the restore under way there, or the last one, has applied."""
        done = self.restore
        return TaskRestore(
            task=self.task, instance=instance, records=done.records, bytes=done.bytes, took_s=done.took_s
        )

    @property
    def error(self) -> str | None:
        """The failure's text; None without one."""
        return None if self.failure is None else self.failure.message

    @property
    def error_kind(self) -> str | None:
        """The name of the failure's class; None without one."""
        return None if self.failure is None else self.failure.kind


@dataclass(frozen=True, kw_only=True)
class ProcessStatus:
    """The process of an instance (``docs/formats.md``)."""

    host: str = ""
    pid: int = 0
    log_file: str | None = None
    ui_url: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class FormerProcess:
    """A process of an instance that failed, and in whose place another one was started (``docs/formats.md``).

    Args:
        generation: what an instance was given until then, the failed process had.
    """

    incarnation: int
    state: InstanceState
    heard_at_ms: int
    generation: int
    how: str


@dataclass(frozen=True)
class DiskStatus:
    """The disk of an instance's stores (``docs/formats.md``)."""

    folder: str = ""
    used_bytes: int = 0
    free_bytes: int | None = None
    host: str = ""


@dataclass(frozen=True, kw_only=True)
class InstanceStatus:
    """One heartbeat of an instance: ``docs/formats.md`` has its fields."""

    application_id: str
    instance: str
    incarnation: int
    state: InstanceState
    generation: int = 0
    sent_at_ms: int = 0
    heartbeat_interval_s: float = 1.0
    process: ProcessStatus = field(default_factory=ProcessStatus)
    disk: DiskStatus = field(default_factory=DiskStatus)
    tasks: tuple[TaskStatus, ...] = ()
    paused: bool = False
    last_commands: tuple[str, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    stop_hand_over: bool | None = None
    error: str | None = None
    error_kind: str | None = None
    fault: FaultStatus | None = None
    former: FormerProcess | None = None

    @property
    def stores_host(self) -> str:
        """The host with which its stores would be lost; empty where it is not known."""
        return self.disk.host or self.process.host

    def replaces(self, incarnation: int) -> bool:
        """Whether this is a later process than that one, and still starts: until it is up, nothing of it works."""
        return self.state is InstanceState.STARTING and self.incarnation > incarnation

    def task(self, task_id: TaskId) -> TaskStatus | None:
        """The status of one task here, or None."""
        return next((t for t in self.tasks if t.task == task_id), None)

    def active_task(self, task_id: TaskId, since: int) -> TaskStatus | None:
        """The active copy of one task here, or None.

        Args:
            since: the generation in which it was given the task: what it says of an older one is over.
        """
        task = self.task(task_id)
        return task if task is not None and task.role is Role.ACTIVE and task.generation >= since else None


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
