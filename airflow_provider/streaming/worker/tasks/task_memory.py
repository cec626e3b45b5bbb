"""What a worker remembers of a task, and what the heartbeat says of it: what it did as owner, and how it failed."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.replica import Replica
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import (
    FailureStatus,
    RestorePhase,
    RestoreStatus,
    TaskState,
    TaskStatus,
    TimeStatus,
    WorkStatus,
)
from airflow_provider.control.records.task_state import Role
from airflow_provider.error_decision import class_of, retry_pause_s
from airflow_provider.error_text import error_text
from airflow_provider.errors import ErrorClass
from airflow_provider.kafka.partitioners import PARTITIONERS
from airflow_provider.streaming.operations.stream_time import Lateness, StreamTime
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.plan import TaskPlan

_RECENT_S: Final = 5.0


class RecentLateness:
    """How far behind the stream time the rows of the last five seconds were.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, Lateness]] = deque()

    def add(self, lateness: Lateness) -> None:
        """Of the rows that were committed now."""
        self._seen.append((self._clock(), lateness))
        self._forget()

    @property
    def avg_and_max_ms(self) -> tuple[float, int] | tuple[None, None]:
        """The mean and the greatest; None where there was no row."""
        self._forget()
        seen = [lateness for _, lateness in self._seen]
        if not seen:
            return None, None
        mean_ms = sum(one.total_ms for one in seen) / sum(one.rows for one in seen)
        return round(mean_ms, 1), max(one.max_ms for one in seen)

    def _forget(self) -> None:
        while self._seen and self._clock() - self._seen[0][0] > _RECENT_S:
            self._seen.popleft()


class Ownership:
    """The times and counts of a task that is, or was, the active one. `Task` knows when each happens."""

    def __init__(self) -> None:
        self.owned_at_ms: int | None = None
        """When every earlier owner was fenced, epoch ms; None for a standby."""
        self.first_commit_at_ms: int | None = None
        """When the first commit since the promotion returned, epoch ms; None before."""
        self.resumed_offset: int | None = None
        """Source offset of the last commit before this owner's first; None before it is known."""
        self.processed = 0
        """Input records of the commits since the promotion."""
        self.commits = 0
        """Transactions that were committed since the promotion."""
        self.process_s = 0.0
        """Seconds of processing since the promotion, without those of commits."""
        self.commit_s = 0.0
        """Seconds of these commits."""
        self.lateness = RecentLateness()
        """Of the rows of these commits."""
        self._lost_at: float | None = None

    def begin(self) -> None:
        """The task is promoted, and has to fence."""
        self._lost_at = None
        self.first_commit_at_ms = None
        self.resumed_offset = None
        self.processed = self.commits = 0
        self.process_s = self.commit_s = 0.0
        self.lateness = RecentLateness()

    def take(self) -> None:
        """Every earlier owner is fenced."""
        self.owned_at_ms = now_ms()

    def resume(self, source_offset: int | None) -> None:
        """The store is restored."""
        self.resumed_offset = source_offset

    def count_commit(self, rows: int, took_s: float, lateness: Lateness | None = None) -> None:
        """A transaction was committed; one without input records is no first one."""
        self.commits += 1
        self.commit_s += took_s
        if lateness is not None:
            self.lateness.add(lateness)
        if rows:
            self.first_commit_at_ms = self.first_commit_at_ms or now_ms()
            self.processed += rows

    def lose(self) -> None:
        """A newer owner has fenced this one."""
        self._lost_at = time.monotonic()

    @property
    def lost_for_s(self) -> float:
        """How long ago a newer owner fenced this one; 0 where none did since the promotion."""
        return 0.0 if self._lost_at is None else time.monotonic() - self._lost_at

    def end(self) -> None:
        """The task is demoted."""
        self.owned_at_ms = None
        self.resumed_offset = None


@dataclass(frozen=True)
class ClosedOwner:
    """An active task without an open store.

    Args:
        record: the last commit that its store was applied to; None before the first.
    """

    plan: TaskPlan
    ownership: Ownership
    record: CommitRecord | None


class ClosedOwners:
    """Remembers what an owner committed when its store is lost: whether it did decides who may have the task next."""

    def __init__(self) -> None:
        self._closed: dict[TaskId, ClosedOwner] = {}

    def note(self, owner: ClosedOwner) -> None:
        """The store of a task was closed; nothing is noted of a standby's.

        Args:
            owner: of the store, which may have been opened again and not be restored yet.
        """
        before = self.known(owner.plan)
        if before is not None and _sequence(before) > _sequence(owner):
            owner = ClosedOwner(owner.plan, owner.ownership, before.record)
        if owner.plan.role is Role.ACTIVE:
            self._closed[owner.plan.task] = owner

    def known(self, plan: TaskPlan) -> ClosedOwner | None:
        """What was noted of the same ownership; None where nothing was."""
        closed = self._closed.get(plan.task)
        return closed if closed is not None and closed.plan.same_ownership(plan) else None

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forget all but these tasks."""
        self._closed = {task_id: closed for task_id, closed in self._closed.items() if task_id in tasks}


def _sequence(owner: ClosedOwner) -> int:
    return 0 if owner.record is None else owner.record.sequence


_WELL_S: Final = 60.0


@dataclass(frozen=True)
class Closed:
    """Why a task's store is not open.

    Args:
        lost: whether its owner lost it, so that a standby is to take over; otherwise it could not be opened, for a
            reason that only a person removes.
    """

    plan: TaskPlan
    error: Exception
    lost: bool

    def same(self, plan: TaskPlan) -> bool:
        """Whether it stands for a plan: no newer generation names the task, and no replay was asked for since."""
        return self.plan.same_ownership(plan) and (self.lost or self.plan.replay == plan.replay)


@dataclass(frozen=True)
class _Failed:
    """A task's last failure.

    Args:
        kind: of the error.
        failures: how many of its kind in a row: what another cause has used up of its patience is not this one's.
        retry_at: when it is tried again, monotonic seconds; infinite once it was, and where it is not.
        well_at: when it has got past that, unless it fails before.
    """

    plan: TaskPlan
    kind: ErrorClass
    failures: int
    retry_at: float
    well_at: float


class FailedTasks:
    """Remembers each task's failures in a row: what has worked for a while after its last try begins anew.

    A task whose store is not open fails and is held as one whose store is (`Task.fail`). An owner that lost its store
    does not restore one that a standby has warm.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[TaskId, _Failed] = {}
        self._closed: dict[TaskId, Closed] = {}

    def note(self, plan: TaskPlan, error: Exception) -> None:
        """A task has failed."""
        known, now, kind = self._known(plan), self._clock(), class_of(error)
        failures = 1 if known is None or known.kind is not kind or now > known.well_at else known.failures + 1
        pause_s = retry_pause_s(type(error).__name__, failures)
        retry_at = math.inf if pause_s is None else now + pause_s
        self._failed[plan.task] = _Failed(plan, kind, failures, retry_at, retry_at + max(_WELL_S, 2 * (pause_s or 0.0)))

    def note_refused(self, plan: TaskPlan, error: Exception) -> None:
        """A task has failed, and could not be opened: it stays closed."""
        self.note(plan, error)
        self._closed[plan.task] = Closed(plan, error, lost=False)

    def note_lost(self, plan: TaskPlan, error: Exception) -> None:
        """A task has failed, and its store is lost: it stays closed where a standby can take over."""
        self.note(plan, error)
        if plan.yields_to_standby:
            self._closed[plan.task] = Closed(plan, error, lost=True)

    def closed(self, plan: TaskPlan) -> Closed | None:
        """Why the task of a plan stays closed; None where it may be opened."""
        closed = self._closed.get(plan.task)
        if closed is not None and not closed.same(plan):
            del self._closed[plan.task]
            return None
        return None if closed is not None and closed.lost and not plan.has_standbys else closed

    def take(self, plan: TaskPlan) -> bool:
        """Whether a task that has failed is to be tried again now, opened where it stayed closed; true once each."""
        known = self._known(plan)
        if known is None or self._clock() < known.retry_at:
            return False
        self._failed[plan.task] = replace(known, retry_at=math.inf)
        self._closed.pop(plan.task, None)
        return True

    def _known(self, plan: TaskPlan) -> _Failed | None:
        known = self._failed.get(plan.task)
        if known is None or (known.plan.same_ownership(plan) and known.plan.replay == plan.replay):
            return known
        del self._failed[plan.task]
        return None


def open_task_status(
    *,
    plan: TaskPlan,
    state: TaskState,
    error: Exception | None,
    replica: Replica,
    ownership: Ownership,
    record: CommitRecord | None,
    job: StageSpec,
) -> TaskStatus:
    """The status of a task whose store is open."""
    running, meter, position = state is TaskState.RUNNING, replica.meter, replica.position
    lag = 0 if running else replica.lag_records
    status = TaskStatus(
        task=plan.task,
        role=plan.role,
        state=state,
        generation=plan.generation,
        position=None if position is None else position.offset,
        end=position.offset if running and position is not None else replica.end,
        lag_records=lag,
        lag_s=0.0 if running else replica.lag_s,
        restore=RestoreStatus(
            phase=None if running or replica.restored else RestorePhase.CHANGELOG,
            records=meter.records,
            bytes=meter.bytes,
            bytes_left=0 if running else meter.bytes_left(lag),
            records_per_s=round(meter.records_per_s, 1),
            took_s=round(meter.elapsed_s, 3),
            remaining_s=0.0 if running else meter.caught_up_in_s(lag),
        ),
        failure=None if error is None else FailureStatus.of(error),
        store_kind=job.store.kind.name,
        memory_bytes=replica.store.memory_bytes,
    )
    return with_ownership(status, ownership, record, job)


def with_ownership(status: TaskStatus, ownership: Ownership, record: CommitRecord | None, job: StageSpec) -> TaskStatus:
    """A status with what the task did as the active one."""
    lateness_avg_ms, lateness_max_ms = ownership.lateness.avg_and_max_ms
    return dataclasses.replace(
        status,
        source_offset=None if record is None else record.source_offset(job.input.topic),
        resumed_offset=ownership.resumed_offset,
        committed_generation=None if record is None else record.generation,
        processed_records=ownership.processed,
        work=WorkStatus(
            commits=ownership.commits,
            process_s=ownership.process_s,
            commit_s=ownership.commit_s,
            lateness_avg_ms=lateness_avg_ms,
            lateness_max_ms=lateness_max_ms,
        ),
        filtered_records={} if record is None else record.filtered,
        failed_records=0 if record is None else record.failed,
        late_records=0 if record is None else record.late,
        timers={} if record is None else record.timers,
        stream_time_ms=None if record is None else record.stream_time_ms,
        time=_time_status(job, StreamTime.after(record)),
        first_commit_at_ms=ownership.first_commit_at_ms,
        owned_at_ms=ownership.owned_at_ms,
    )


def unopened_task_status(plan: TaskPlan) -> TaskStatus:
    """The status of a task whose store is not open yet."""
    return TaskStatus(task=plan.task, role=plan.role, state=TaskState.initial(plan.role), generation=plan.generation)


def failed_task_status(plan: TaskPlan, error: Exception, what_next: str = "") -> TaskStatus:
    """The status of a task that has failed and whose store is not open."""
    return TaskStatus(
        task=plan.task,
        role=plan.role,
        state=TaskState.FAILED,
        generation=plan.generation,
        failure=FailureStatus(type(error).__name__, f"{error_text(error)}{what_next}"),
    )


_ENOUGH: Final = 100
"""Groups that show which partitioner placed them: with two partitions 2^-100 is the chance that another would, too."""


class PartitionCheck:
    """Finds groups that another producer, with another partitioner, put into another partition than the others would.

    Which partitioner the topic's producers use is not known: it is one that explains every group seen so far, those
    that were found right by an earlier owner of the task among them. Each further group that lies elsewhere by its rule
    is a stray: its other records are in another partition, or will be.

    Args:
        known: gives groups that were found right before; asked once, before the first group is looked at, for some.
    """

    def __init__(self, partition: int, num_partitions: int, known: Callable[[], Iterable[bytes]] = lambda: ()) -> None:
        self._partition, self._num_partitions = partition, num_partitions
        self._candidates = list(PARTITIONERS)
        self._known: Callable[[], Iterable[bytes]] | None = known

    @property
    def partitioner(self) -> str:
        """The one that is taken for the topic's, in words."""
        return self._candidates[0]

    def strays(self, groups: Sequence[bytes]) -> list[bytes]:
        """Those of some groups that do not belong here.

        Raises:
            Exception: what `known` raises; it is asked again with the next call.
        """
        if not groups:
            return []
        if self._known is not None:
            found_before = list(itertools.islice(self._known(), _ENOUGH))
            self._known = None
            self.strays(found_before)
        fits = {name: PARTITIONERS[name](groups, self._num_partitions) == self._partition for name in self._candidates}
        whole = [name for name in self._candidates if fits[name].all()]
        # Where none explains all of them, the one that explains most is the topic's.
        self._candidates = whole or [max(self._candidates, key=lambda name: int(fits[name].sum()))]
        return [] if whole else [groups[at] for at in np.flatnonzero(~fits[self.partitioner]).tolist()]


def _time_status(job: StageSpec, time: StreamTime) -> TimeStatus:
    """How far event time is; where a task before it has told nothing yet, that one is waited for."""
    status = job.operation.time_status(time, job.input.sides)
    silent = [task for side in job.input.upstream for task in side if task not in time.marks]
    if status.watermark_ms is not None or status.held_back_by is not None or not silent:
        return status
    return dataclasses.replace(status, held_back_by=f"task {silent[0]}")
