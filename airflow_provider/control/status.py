"""What an instance tells about itself and its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["InstanceState", "InstanceStatus", "RestorePhase", "Role", "TaskState", "TaskStatus"]


class Role(Enum):
    """What an instance is for a task."""

    ACTIVE = "active"
    STANDBY = "standby"


class InstanceState(Enum):
    """The life of one instance.

    ::

        STARTING ──> RUNNING ──> STOPPING ──> STOPPED      said goodbye
            │           │            │
            └───────────┴────────────┴──────> ENDED        the process ended without a goodbye (told by its launcher)
    """

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ENDED = "ended"

    @property
    def alive(self) -> bool:
        """Whether the process exists, as far as it was told."""
        return self not in (InstanceState.STOPPED, InstanceState.ENDED)


class TaskState(Enum):
    """The life of one task on one instance.

    ::

        OWNING ──> RESTORING ──> RUNNING ──> CLOSED        active
           │           │            │
           └───────────┴────────────┴──────> FAILED        stopped with an error; the state stays as last committed
        FOLLOWING ───────────> FAILED, CLOSED              standby
    """

    OWNING = "owning"
    RESTORING = "restoring"
    RUNNING = "running"
    FOLLOWING = "following"
    FAILED = "failed"
    CLOSED = "closed"


class RestorePhase(Enum):
    """What a restore is doing, from when a task is taken until its store is first at the end of its changelog."""

    SNAPSHOT = "snapshot"
    RANGES = "ranges"
    """Spark tasks write table files, each from a range of the changelog's offsets."""
    CHANGELOG = "changelog"


@dataclass(frozen=True)
class TaskStatus:
    """One task on one instance, as of a heartbeat.

    Args:
        task: its number.
        role: active or standby.
        state: see `TaskState`.
        generation: an active's ``active_since``; the generation read for a standby.
        position: changelog offset up to which the store is applied; None before the store is open.
        end: end of the changelog as last seen; None before it was seen.
        lag_records: changelog offsets between ``position`` and ``end``.
        lag_s: seconds between the timestamps of those two points; 0 when caught up, None when unknown.
        caught_up_in_s: forecast of when the lag is gone, at the rate seen; 0 when caught up, None when unknown.
        source_offset: offset of the next input record to process; None before a commit is known.
        restored_records: changelog records applied in the restore under way or last finished.
        restored_bytes: the size of their keys and values.
        restore_bytes_left: an estimate of what is left; None when unknown.
        restore_records_per_s: its rate.
        restore_s: seconds that it took, or takes so far.
        restore_phase: see `RestorePhase`; None once the end was reached.
        processed_records: input records processed since the instance took the task.
        records_per_s: its recent rate.
        failed_records: input records that could not be processed and were left out, since the application began.
        first_commit_at_ms: when the first commit after taking the task was done, epoch ms; None before.
        owned_at_ms: when the task was owned (earlier owners fenced), epoch ms; None before.
        error: why the task failed, in one line; None otherwise.
        error_kind: the name of that error's class; None otherwise.
        certified_position: of a standby: the changelog offset at which its store was last found to hold what the
            active's held; None before.
        certified_at_ms: when that was, epoch ms of its host; None before.
        divergences: how often it was found to hold something else, since its process began.
        snapshot_position: of a standby: the changelog offset of its last snapshot; None before.
        snapshot_at_ms: when that was taken, epoch ms of its host; None before.
        snapshot_error: why the last snapshot could not be sent, in one line; None otherwise.
        restored_from: what its store was last restored from, when it was empty and snapshots are taken, and why not
            from a newer snapshot; None otherwise.
    """

    task: int
    role: Role
    state: TaskState
    generation: int = 0
    position: int | None = None
    end: int | None = None
    lag_records: int | None = None
    lag_s: float | None = None
    caught_up_in_s: float | None = None
    source_offset: int | None = None
    restored_records: int = 0
    restored_bytes: int = 0
    restore_bytes_left: int | None = None
    restore_records_per_s: float = 0.0
    restore_s: float = 0.0
    restore_phase: RestorePhase | None = None
    processed_records: int = 0
    records_per_s: float = 0.0
    failed_records: int = 0
    first_commit_at_ms: int | None = None
    owned_at_ms: int | None = None
    error: str | None = None
    error_kind: str | None = None
    certified_position: int | None = None
    certified_at_ms: int | None = None
    divergences: int = 0
    snapshot_position: int | None = None
    snapshot_at_ms: int | None = None
    snapshot_error: str | None = None
    restored_from: str | None = None

    @property
    def warm(self) -> bool:
        """Whether this is a standby copy that has seen the end of its changelog at least once."""
        following = self.role is Role.STANDBY and self.state is TaskState.FOLLOWING
        return following and self.lag_records is not None and self.restore_phase is None


@dataclass(frozen=True)
class InstanceStatus:
    """One heartbeat of an instance.

    Args:
        application_id: the application.
        instance: its name, the same over restarts.
        incarnation: one process of it; greater is newer.
        state: see `InstanceState`.
        generation: the newest assignment that it has read and obeys; 0 before any.
        host: where it runs.
        pid: the driver's process id there.
        state_dir: where its stores lie there.
        sent_at_ms: epoch ms by its own clock. For people; no decision reads it.
        heartbeat_interval_s: how often it promises to send one.
        disk_bytes: size of its stores.
        free_disk_bytes: what its disk has left; None when unknown.
        tasks: its tasks.
        last_command: id of the last command that it carried out.
        error: why it ended or fails, in one line.
        exit_code: of the process, when its launcher tells that it ended.
        log_file: where its log lies on its host.
    """

    application_id: str
    instance: str
    incarnation: int
    state: InstanceState
    generation: int = 0
    host: str = ""
    pid: int = 0
    state_dir: str = ""
    sent_at_ms: int = 0
    heartbeat_interval_s: float = 1.0
    disk_bytes: int = 0
    free_disk_bytes: int | None = None
    tasks: tuple[TaskStatus, ...] = ()
    last_command: str | None = None
    error: str | None = None
    exit_code: int | None = None
    log_file: str | None = None

    def task(self, number: int) -> TaskStatus | None:
        """The status of one task here, or None."""
        return next((t for t in self.tasks if t.task == number), None)
