"""The tasks that a slot holds: opened, closed, and each kept from the others' errors."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import FailureStatus, TaskState, TaskStatus
from airflow_provider.error_decision import class_of, stops_a_running_task
from airflow_provider.errors import (
    ErrorClass,
    StateError,
    StatefulStreamsError,
    StoreCorruptedError,
    StoreDivergedError,
    StoreLockedError,
    StoreOutdatedError,
    TopicDamagedError,
    TopicMismatchError,
    TopicMissingError,
    WorkerError,
)
from airflow_provider.failpoint import FailPoints
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.planner.stage_spec import StageSpec, stage_of
from airflow_provider.streaming.worker.standby.standby_duties import StandbyDuties
from airflow_provider.streaming.worker.tasks.kafka_clients import KafkaClients, RestoreConsumer
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from airflow_provider.streaming.worker.tasks.replica_opening import open_replica
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.streaming.worker.tasks.task_memory import (
    ClosedOwners,
    FailedTasks,
    failed_task_status,
    unopened_task_status,
    with_ownership,
)


class Reaction(Enum):
    """What becomes of a task after an error of its own. The other tasks go on, except after RAISE."""

    WAIT = "wait"
    """Another instance owns it: it waits for the newer assignment."""
    CLOSE_STORE = "close_store"
    """Its store is closed; a standby takes over, or the next call opens the store again."""
    REPLACE_STORE = "replace_store"
    """Its store is bad, so it is closed and moved aside; a standby takes over, or the next call restores another."""
    RETRY = "retry"
    """The error is reported, and the next call tries again."""
    RAISE = "raise"
    """The call ends with the error, and Spark or the query tries again from what is stored."""
    FAIL = "fail"
    """It stops; a newer assignment decides what comes next."""


def reaction_to_error(error: Exception) -> Reaction:
    """To an error of opening, fencing, restoring or following."""
    if isinstance(error, (StateError, TopicDamagedError)):
        return _reaction_to_state_error(error)  # what a standby holds may lie beyond what is damaged
    return Reaction.FAIL if _is_for_a_person(error) else Reaction.RETRY


def reaction_to_batch_error(error: Exception, attempts_left: bool) -> Reaction:
    """To an error of processing rows."""
    found = class_of(error)
    if found is ErrorClass.OWNER:
        return Reaction.WAIT
    if isinstance(error, StateError):
        return _reaction_to_state_error(error)
    if found is ErrorClass.TRANSIENT or isinstance(error, TopicMissingError):
        return Reaction.RAISE
    if isinstance(error, TopicMismatchError):
        return Reaction.FAIL  # what another attempt would restore is not the task's alone any more
    # Workers crashed over these rows already: not once more.
    another = attempts_left and not isinstance(error, WorkerError) and not _is_for_a_person(error)
    return Reaction.RAISE if another else Reaction.FAIL


def _is_for_a_person(error: Exception) -> bool:
    return stops_a_running_task(type(error).__name__)


def _reaction_to_state_error(error: StateError | TopicDamagedError) -> Reaction:
    bad = isinstance(error, (StoreCorruptedError, StoreOutdatedError, StoreDivergedError))
    return Reaction.REPLACE_STORE if bad else Reaction.CLOSE_STORE


_LOCK_TIMEOUT_S = 20.0
_SETTLED: Final = frozenset({TaskState.RUNNING, TaskState.FOLLOWING})


class TaskRegistry:
    """Owns which tasks are open here, and why one is not.

    Args:
        reader: gets the changelogs of the tasks that are opened.
        duties: knows whether a store waits for a snapshot; ended where a store is closed.
        clock: monotonic seconds, by which what has failed is tried again.
    """

    def __init__(
        self,
        *,
        settings: InstanceSettings,
        stages: Mapping[int, StageSpec],
        reader: RestoreConsumer,
        address: str,
        duties: StandbyDuties,
        kafka: KafkaClients,
        failpoints: FailPoints,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._stages, self._reader, self._address = settings, stages, reader, address
        self._duties, self._kafka, self._failpoints = duties, kafka, failpoints
        self._directory = StateDirectory(Path(settings.state_dir), settings.application_id)
        self._tasks: dict[TaskId, Task] = {}
        self._plans: Mapping[TaskId, TaskPlan] = {}
        self._errors: dict[TaskId, Exception] = {}
        self._was_locked: frozenset[TaskId] = frozenset()
        self._failed, self._closed = FailedTasks(clock), ClosedOwners()
        self._quarantine_grew = True  # what an earlier process left in quarantine counts too

    @property
    def tasks(self) -> Mapping[TaskId, Task]:
        """The open tasks, as they are now; a view."""
        return MappingProxyType(self._tasks)

    @property
    def settled(self) -> bool:
        """Whether every task of the plans does what it is to, and nothing went wrong since they were begun with."""
        tasks = self._tasks.values()
        return not self._errors and len(tasks) == len(self._plans) and all(task.state in _SETTLED for task in tasks)

    def begin_call(self, plans: Sequence[TaskPlan]) -> None:
        """Close what the plans do not name; every task is tried again."""
        self._plans = {plan.task: plan for plan in plans}
        self._was_locked = frozenset(p for p, error in self._errors.items() if isinstance(error, StoreLockedError))
        self._errors = {}
        for task_id in self._tasks.keys() - self._plans.keys():
            self.close(task_id)
        self._closed.keep(self._plans.keys())
        for task_id, task in list(self._tasks.items()):
            if not task.replica.store.files_there:
                # The next start would find nothing.
                with self.isolating(task_id):
                    raise StoreCorruptedError(
                        f"The files of the open store {task.replica.store.path} were removed: find out who did it, "
                        "unless it was a drill. The store is restored from its changelog."
                    )

    def open(self, plan: TaskPlan) -> Task | None:
        """The task of a plan, opened if it is not open; for a replay that is new, with an empty store.

        Returns:
            None while its store is lost and a standby is to take over, after it was refused in the same generation (in
            both until it is tried again), or while a snapshot of it is being fetched.

        Raises:
            StatefulStreamsError: it cannot be opened now.
            OSError: the state folder cannot be used.
        """
        task_id = plan.task
        if self._failed.closed(plan) is not None and not self._failed.take(plan):
            return None
        replay = plan.replay is not None and self._directory.replayed(task_id) != plan.replay
        if replay:
            self.close(task_id)
        if task_id in self._tasks:
            return self._tasks[task_id]
        stage = stage_of(self._settings.application_id, self._stages, task_id.stage)
        if self._duties.awaits_snapshot(task_id, self._directory.database(task_id), self._reader, replay):
            return None
        self._quarantine_grew = True  # opening may move a bad store aside
        replica = open_replica(
            stage,
            task_id,
            self._directory,
            self._reader,
            self._address,
            self._settings.instance,
            fresh=replay,
            # With snapshots a bad store is not replaced at once: an empty one may be filled by them.
            strict=plan.yields_to_standby or stage.snapshots is not None,
            # A process that did not give the lock back once is not waited for again: the other tasks would wait too.
            lock_timeout_s=0.0 if task_id in self._was_locked else _LOCK_TIMEOUT_S,
        )
        closed = self._closed.known(plan)
        # A replay renews the digest too.
        task = Task(
            settings=self._settings,
            job=stage,
            plan=plan,
            replica=replica,
            kafka=self._kafka,
            failpoints=self._failpoints,
            renew_digest=replay,
            ownership=None if closed is None else closed.ownership,
        )
        self._tasks[task_id] = task
        if replay and plan.replay is not None:
            self._directory.note_replay(task_id, plan.replay)
        return task

    def close(self, task_id: TaskId) -> None:
        """Close a task's store, if it is open; its lock is free afterwards."""
        task = self._tasks.pop(task_id, None)
        if task is not None:
            self._reader.remove(task.changelog_partition)
            self._duties.end(task_id)
            self._closed.note(task.closed_owner)
            task.close()

    def close_all(self) -> None:
        """Close every task."""
        for task_id in list(self._tasks):
            self.close(task_id)

    def is_tried_again(self, task: Task, plan: TaskPlan) -> bool:
        """Whether an open task that has failed is to be tried again now, in the same role and generation."""
        return task.state is TaskState.FAILED and self._failed.take(plan)

    def release(self, folder: str) -> bool:
        """Close the task whose store lies in a folder, because another worker needs it; false when none is open."""
        task_id = next((p for p, task in self._tasks.items() if str(task.replica.store.path) == folder), None)
        if task_id is None:
            return False
        self.close(task_id)
        return True

    def prune_quarantine(self) -> None:
        """Remove the oldest stores in quarantine beyond the bounds, those of the open tasks, which are restored."""
        if self._quarantine_grew:
            settings = self._settings
            self._directory.prune(self._tasks.keys(), settings.quarantine_max_stores, settings.quarantine_max_bytes)
            self._quarantine_grew = False

    def error(self, task_id: TaskId) -> Exception | None:
        """Why a task stopped, or what went wrong with it in the last call; None where nothing did."""
        task, plan = self._tasks.get(task_id), self._plans.get(task_id)
        if task is not None and task.error is not None:
            return task.error
        closed = None if task is not None or plan is None else self._failed.closed(plan)
        return self._errors.get(task_id) if closed is None else closed.error

    def status(self, plan: TaskPlan) -> TaskStatus:
        """How the task of a plan is, whether it is open or not."""
        task, error = self._tasks.get(plan.task), self._errors.get(plan.task)
        if task is not None:
            status = task.status()
        elif (why := self._failed.closed(plan)) is not None:
            status = failed_task_status(plan, why.error, " A standby is to take over." if why.lost else "")
        else:
            status = unopened_task_status(plan)
        status = dataclasses.replace(status, replay=plan.replay)
        if task is None and (closed := self._closed.known(plan)) is not None:
            # Where it committed decides where it may go.
            job = stage_of(self._settings.application_id, self._stages, plan.task.stage)
            status = with_ownership(status, closed.ownership, closed.record, job)
        if error is not None and status.error is None:
            status = dataclasses.replace(status, failure=FailureStatus.of(error))
        return status

    # -- errors of one task --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def isolating(self, task_id: TaskId) -> Iterator[None]:
        """Opening, fencing, restoring or following: an error is reported in the task's status, the others go on."""
        try:
            yield
        except StatefulStreamsError as error:
            self._react(task_id, error, reaction_to_error(error))
        except OSError as error:
            # Nothing but the state folder is read or written there, so an error of the system is the folder's.
            unusable = StateError(
                f"The state folder {self._directory.path} cannot be used ({error}): check the disk's space and "
                "permissions."
            )
            self._react(task_id, unusable, reaction_to_error(unusable))

    @contextlib.contextmanager
    def isolating_source(self, task_id: TaskId) -> Iterator[None]:
        """Reading its source: an error that nothing gets past fails the task, the others go on."""
        try:
            yield
        except StatefulStreamsError as error:
            self._react(task_id, error, Reaction.RETRY if class_of(error) is ErrorClass.TRANSIENT else Reaction.FAIL)

    @contextlib.contextmanager
    def isolating_batch(self, task_id: TaskId, attempts_left: bool) -> Iterator[None]:
        """Processing rows: some errors are worth another attempt by Spark.

        Raises:
            Exception: what another attempt may get past.
        """
        try:
            yield
        except Exception as error:
            reaction = reaction_to_batch_error(error, attempts_left)
            self._react(task_id, error, reaction)
            if reaction is Reaction.RAISE:
                raise

    def _react(self, task_id: TaskId, error: Exception, reaction: Reaction) -> None:
        task = self._tasks.get(task_id)
        match reaction:
            case Reaction.WAIT if task is not None:
                task.on_fenced(error)
                return
            case Reaction.FAIL if task is not None:
                self._failed.note(task.plan, error)
                task.fail(error)
                return
            case Reaction.FAIL if (plan := self._plans.get(task_id)) is not None:
                self._failed.note_refused(plan, error)
                return
        if task is not None:
            # What the last commit did may be in the changelog and not in the store.
            task.drop_producer()
        if reaction is Reaction.RAISE:
            return
        self._errors[task_id] = error
        if reaction in (Reaction.CLOSE_STORE, Reaction.REPLACE_STORE):
            self._lose_store(task_id, error, bad=reaction is Reaction.REPLACE_STORE)

    def _lose_store(self, task_id: TaskId, error: Exception, *, bad: bool) -> None:
        """A standby takes over where there is one; else the next call opens the store again, or restores an empty one.

        RocksDB refuses everything after a write that failed, even when the disk has room again: so it is closed.
        """
        task = self._tasks.get(task_id)
        self.close(task_id)
        if bad:
            # Not destroyed in place; where not even that can be done, the next call finds it again.
            with contextlib.suppress(OSError):
                self._directory.quarantine(task_id)
            self._quarantine_grew = True
        plan = self._plans.get(task_id) if task is None else task.plan
        if plan is not None:
            self._failed.note_lost(plan, error)
