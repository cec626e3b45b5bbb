"""What an instance is for a task, where the task is in its life there, and what its store was restored from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.common.task_id import TaskId


class Role(Enum):
    """What an instance is for a task."""

    ACTIVE = "active"
    STANDBY = "standby"


class TaskState(Enum):
    """The life of one task on one instance.

    ::

          named active                                       named standby
               │                                                   │
               v                    promoted                       v
        ┌─> OWNING <─────────────────────────────────────────── FOLLOWING
        │      │ every earlier owner is fenced                     ^
        │      v                                                   │
        ├── RESTORING ──────────┐ a later owner has committed      │
        │      │ at the end of  │                                  │
        │      v its changelog  │                                  │
        ├── RUNNING             │                                  │
        │      │ fenced         │                                  │
        │      v                │                                  │
        ├── CLOSED, waits <─────┘     each but FOLLOWING ── demoted┘
        │
        └── the producer was dropped, after an error or a commit that took long; a newer generation names it active
            again; or it was fenced, and in time no newer assignment came that says why

        each but CLOSED ──> FAILED    stopped with an error; the state stays as last committed
        each ─────────────> CLOSED    the store is closed

    A FAILED task is tried again when a newer generation names it: an active from OWNING, a standby from FOLLOWING.
    """

    OWNING = "owning"
    RESTORING = "restoring"
    RUNNING = "running"
    FOLLOWING = "following"
    FAILED = "failed"
    CLOSED = "closed"

    @property
    def successors(self) -> frozenset[TaskState]:
        """The states that come next. Where a state is among its own, it can begin again."""
        return _SUCCESSORS[self]

    @staticmethod
    def initial(role: Role) -> TaskState:
        """The state in which a task begins."""
        return TaskState.OWNING if role is Role.ACTIVE else TaskState.FOLLOWING


_SUCCESSORS: Final[dict[TaskState, frozenset[TaskState]]] = {
    state: frozenset(successors)
    for state, successors in {
        TaskState.OWNING: (
            TaskState.OWNING,
            TaskState.RESTORING,
            TaskState.FOLLOWING,
            TaskState.FAILED,
            TaskState.CLOSED,
        ),
        TaskState.RESTORING: (
            TaskState.RUNNING,
            TaskState.OWNING,
            TaskState.FOLLOWING,
            TaskState.FAILED,
            TaskState.CLOSED,
        ),
        TaskState.RUNNING: (TaskState.OWNING, TaskState.FOLLOWING, TaskState.FAILED, TaskState.CLOSED),
        TaskState.FOLLOWING: (TaskState.OWNING, TaskState.FAILED, TaskState.CLOSED),
        TaskState.FAILED: (TaskState.OWNING, TaskState.FOLLOWING, TaskState.FAILED, TaskState.CLOSED),
        TaskState.CLOSED: (TaskState.OWNING, TaskState.FOLLOWING, TaskState.CLOSED),
    }.items()
}


@dataclass(frozen=True, kw_only=True)
class TaskRestore:
    """One restore of one task's store."""

    task: TaskId
    instance: str
    records: int
    bytes: int
    took_s: float
