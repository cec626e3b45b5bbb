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
    """The restore of a task's store that is under way, or the last one.

    Args:
        phase: see `RestorePhase`; None once the end of the changelog was reached.
        bytes_left: an estimate of what is left; None when unknown.
        took_s: seconds that it took, or takes so far.
        remaining_s: forecast of when the lag is gone, at the rate seen, in seconds; 0 when caught up, None when
            unknown.
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
    """What comparisons of a standby's store with its active's found.

    Args:
        position: the changelog offset at which it was last found to hold what the active's held; None before.
        at_ms: when that was, epoch ms of its host; None before.
        divergences: how often it was found to hold something else, since its process began.
        command: id of the newest command for which a comparison was made, to its end; None before any.
    """

    position: int | None = None
    at_ms: int | None = None
    divergences: int = 0
    command: str | None = None


@dataclass(frozen=True)
class SnapshotStatus:
    """A standby's last snapshot.

    Args:
        position: its changelog offset; None before the first.
        at_ms: when it was taken, epoch ms of its host; None before.
        error: why the last one could not be sent, in one line; None otherwise.
    """

    position: int | None = None
    at_ms: int | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableWaitStatus:
    """Which table a task of a stream waits for, which its rows are to meet.

    Args:
        topic: of the table, or one between two stages by which its rows come.
        task: which reads that and is behind.
        others: further tasks of its stage that are.
        offset: of the next record of that task, by its last commit; None before the first, and while it is not known.
        end: the offset that it has to reach; None while the brokers do not tell.
        for_s: seconds since the wait began.
    """

    topic: str
    task: TaskId
    others: int = 0
    offset: int | None = None
    end: int | None = None
    for_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SourceStatus:
    """What the source holds for an active task, as its instance's driver asked the brokers.

    Args:
        end: the offset after the last record that can be read; None before it was asked for.
        lag_records: offsets between the task's next input record and ``end``, 0 where no record is among them; None
            when unknown.
        uncommitted_records: offsets behind ``end`` that cannot be read, because a producer's transaction is open.
        stalled_s: seconds for which the task has got no further, although its source holds more; 0 while it gets on,
            or has nothing to do. A call into its worker that is under way and not overdue does not count, nor does a
            wait for a table.
        gets_ready: whether it holds more, and the query that is to bring the task's rows has not called yet: Spark
            loads, compiles and starts what it needs until then.
        waits_for: the table that has to be read before its next rows are; None where it waits for none, or not for
            some seconds yet.
    """

    end: int | None = None
    lag_records: int | None = None
    uncommitted_records: int = 0
    stalled_s: float = 0.0
    gets_ready: bool = False
    waits_for: TableWaitStatus | None = None


@dataclass(frozen=True, kw_only=True)
class WorkStatus:
    """What an active task's processing took, since the instance got the task, and lately: over five seconds.

    Args:
        commits: transactions that were committed.
        process_s: seconds of processing, without commits.
        commit_s: seconds of these commits.
        commits_per_s: lately.
        process_latency_ns: nanoseconds of processing an input record, lately; None where none was processed.
        commit_latency_ms: milliseconds of a commit, lately; None where there was none.
        lateness_avg_ms: by how much the rows were behind the stream time, lately: their mean in milliseconds; None
            where none was processed, without event time, and where the instance's version does not report it.
        lateness_max_ms: of the row that was furthest behind.
    """

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
    """How far event time has got in an active task, as of its last commit.

    Args:
        watermark_ms: what ends at or before it is over, epoch ms; None where there is none, or none yet.
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
    """The last fault of a drill that an instance holds over itself for a while, or reports the end of.

    Args:
        restores: what was replayed; none for a fault that replays nothing.
        unmeasured: why there was nothing to measure; None where there was.
    """

    id: str
    over: bool = False
    restores: tuple[TaskRestore, ...] = ()
    failure: FailureStatus | None = None
    unmeasured: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskStatus:
    """One task on one instance, as of a heartbeat.

    Args:
        generation: an active's ``active_since``; the generation read for a standby.
        position: changelog offset up to which the store is applied; None before the store is open.
        end: end of the changelog as last seen; None before it was seen.
        lag_records: changelog offsets between ``position`` and ``end``.
        lag_s: seconds since it was caught up, by its own host; 0 while it is, None when unknown.
        source_offset: offset of the next input record to process; None before a commit is known.
        resumed_offset: of an active, the ``source_offset`` with which it went on after it was owned: the last commit's;
            None before, and where nothing was committed before.
        committed_generation: of the last commit that the store knows; None before the first.
        processed_records: input records processed since the instance got the task.
        filtered_records: by name of a filter, input records that it dropped, since the application began; under
            ``duplicates``, those that ``drop_duplicates()`` did.
        failed_records: input records that could not be processed and were left out, since the application began.
        late_records: input records that came too late for what they belong to and were left out, since the
            application began.
        timers: by kind (``timers`` of event time, ``clock``), those that the functions of a `process()` have set and
            that have not fired, as of the last commit; of standbys too.
        stream_time_ms: the greatest event time that the task has seen, epoch ms; None where none is read.
        lost_records: offsets of input that were deleted before they were read and that the instance went on without,
            since it got the task: the next owner counts from 0. Each range is in that instance's log.
        owned_at_ms: when the task was owned (earlier owners fenced), epoch ms; None before.
        first_commit_at_ms: when the first commit after getting the task was done, epoch ms; None before.
        failure: why it failed, or what is wrong although it works; None otherwise.
        store_kind: what keeps its store: ``rocksdb``, ``memory``, or ``module:Class`` of a user's.
        memory_bytes: what the store takes of the worker's memory, where it is kept there; None elsewhere.
        fault: id of the last fault of a drill that was injected into its store; None where none was.
        replay: id of the newest command to restore its store afresh of which this is the answer; None before any.
        failed_s: seconds for which it has been `TaskState.FAILED`, by the driver's monotonic clock; None while it is
            not, and where the instance's version does not report it.
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
    """The process of an instance.

    Args:
        pid: the driver's process id there; 0 when it is not known.
        log_file: where its log lies there; None when it is not known.
        ui_url: of Spark's UI, as the driver serves it; None where that is off or not up yet.
        exit_code: its exit status, when its launcher reports its end; None otherwise.
    """

    host: str = ""
    pid: int = 0
    log_file: str | None = None
    ui_url: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class FormerProcess:
    """A process of an instance that failed, and in whose place another one was started.

    Args:
        heard_at_ms: of its last status, epoch ms by the broker's clock.
        generation: of the newest assignment when the next one was started: what an instance was given until then, the
            failed process had.
    """

    incarnation: int
    state: InstanceState
    heard_at_ms: int
    generation: int
    how: str


@dataclass(frozen=True)
class DiskStatus:
    """The disk of an instance's stores.

    Args:
        free_bytes: what the disk has left; None when unknown.
        host: where it was measured, on a Spark cluster the executor's; empty before it was.
    """

    folder: str = ""
    used_bytes: int = 0
    free_bytes: int | None = None
    host: str = ""


@dataclass(frozen=True, kw_only=True)
class InstanceStatus:
    """One heartbeat of an instance.

    Args:
        instance: its name, the same over restarts.
        incarnation: one process of it; greater is newer.
        generation: the newest assignment that it has read and carries out; 0 before any.
        sent_at_ms: epoch ms by its own clock. For people; no decision reads it.
        heartbeat_interval_s: how often it promises to send one.
        paused: whether it was asked to process nothing for now.
        last_commands: ids of the last commands that it carried out or refused, the newest last.
        refusals: of those that it refused, by id: why.
        stop_hand_over: of Airflow's command that stopped it, whether its tasks were to go to others; None where it was
            not stopped by one.
        error: why it ended or fails, in one line.
        error_kind: the name of the class of the error that ended it; None where it is not known.
        fault: of a drill, where it lasts for a while; None before any.
        former: the process before this one, where that failed; None where it did not, and where there was none.
    """

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
