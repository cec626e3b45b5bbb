"""A Python worker's tasks: opened, owned, restored, followed, processed, let go."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.start import start
from airflow_provider.control.status import Role, TaskState, TaskStatus
from airflow_provider.errors import (
    FencedError,
    RecordError,
    StatefulStreamsError,
    StoreCorruptedError,
    StoreOutdatedError,
)
from airflow_provider.failpoint import FailPoints
from airflow_provider.names import changelog_topic
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.store import Store
from airflow_provider.streaming.active_step import active_step
from airflow_provider.streaming.handover import Handover, open_store
from airflow_provider.streaming.plan import SlotPlan, TaskPlan
from airflow_provider.streaming.task import Task

__all__ = ["Slot"]

_READ_RECORDS = 10_000
_POLL_S = 0.02
_CATCH_UP_S = 0.5


class Slot:
    """Everything that one Python worker holds between calls.

    One call at a time: the driver sees to that, and a lock keeps another worker's request for a store out meanwhile.

    Args:
        plan: of the first call; later ones are obeyed as they come.
    """

    def __init__(self, plan: SlotPlan) -> None:
        self._settings, self._job = plan.settings, plan.job
        self._tasks: dict[int, Task] = {}
        self._replayed: dict[int, str] = {}
        self._lock = threading.RLock()
        self._directory = StateDirectory(Path(plan.settings.state_dir), plan.job.application_id)
        self._failpoints = FailPoints(plan.settings.fail_points, Path(plan.settings.run_dir))
        self._reader = ChangelogReader(plan.settings.connection, plan.job.application_id)
        self._handover = Handover(self._release)

    def call(self, plan: SlotPlan, rows: pa.Table | None, attempts_left: bool) -> tuple[TaskStatus, ...]:
        """Do what a call from the driver asks for: obey the plan, process the rows, follow the changelogs.

        Args:
            plan: the newest.
            rows: of this slot's active tasks; None for a round without rows.
            attempts_left: whether Spark would try again, so that a bad record may raise instead of failing the task.

        Returns:
            The status of every task of the plan.

        Raises:
            StatefulStreamsError: something that another attempt may mend.
        """
        with self._lock:
            failed = self._obey(plan)
            if rows is not None:
                self._process(rows, plan.rows_of, attempts_left)
            self._follow(time.monotonic() + plan.budget_s)
            return tuple(task.status() for _, task in sorted(self._tasks.items())) + failed

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            for number in list(self._tasks):
                self._let_go(number)
            self._reader.close()
            self._handover.close()

    # -- obeying a plan ------------------------------------------------------------------------------------------

    def _obey(self, plan: SlotPlan) -> tuple[TaskStatus, ...]:
        self._settings, self._job = plan.settings, plan.job
        wanted = {task.task: task for task in plan.tasks}
        for number in [n for n in self._tasks if n not in wanted]:
            self._let_go(number)
        failed: list[TaskStatus] = []
        for number, task_plan in wanted.items():
            try:
                self._obey_task(number, task_plan)
            except StatefulStreamsError as error:
                # One task's trouble is its own: the others go on.
                failed.append(self._failed_status(task_plan, error))
        return tuple(failed)

    def _obey_task(self, number: int, plan: TaskPlan) -> None:
        asked = plan.replay is not None and self._replayed.get(number) != plan.replay
        if asked:
            self._let_go(number)
        if number not in self._tasks:
            self._tasks[number] = self._open(plan, fresh=asked)
            if plan.replay is not None:
                self._replayed[number] = plan.replay
        task = self._tasks[number]
        if plan != task.plan:
            self._change_role(task, plan)
        if task.state is TaskState.OWNING:
            # 1. own, then restore to the end: `_follow` does the rest
            task.own()
            _, end = self._reader.bounds(task.source)
            task.replica.expect(end)
            self._seek(task)

    def _change_role(self, task: Task, plan: TaskPlan) -> None:
        before, task.plan = task.plan, plan
        if before.role is plan.role and before.generation == plan.generation:
            return
        if plan.role is Role.ACTIVE:
            task.error, task.state = None, TaskState.OWNING
            task.processed, task.first_commit_at_ms = 0, None
        elif before.role is Role.ACTIVE:
            task.disown()
            task.error, task.state, task.owned_at_ms = None, TaskState.FOLLOWING, None
            self._seek(task)

    def _open(self, plan: TaskPlan, fresh: bool) -> Task:
        name, store = changelog_topic(self._job.application_id, self._job.store), self._job.store
        path = self._directory.store(plan.task, store)

        def open_() -> Store:
            return Store(path, self._job.rocksdb)

        if fresh:
            self._directory.quarantine(plan.task, store)
        try:
            opened = open_store(open_, path, self._handover.address)
        except StoreCorruptedError:
            # Moved aside, never destroyed in place; its successor is restored from the changelog.
            self._directory.quarantine(plan.task, store)
            opened = open_store(open_, path, self._handover.address)
        low, high = self._reader.bounds((name, plan.task))
        now_ms = time.time_ns() // 1_000_000
        verdict = start(opened.position, name, low, high, now_ms, self._job.delete_retention_ms)
        if verdict.fresh:
            opened.close()
            self._directory.quarantine(plan.task, store)
            opened = open_store(open_, path, self._handover.address)
        replica = Replica(opened, name, plan.task)
        replica.expect(high)
        task = Task(self._settings, self._job, plan, replica, self._failpoints)
        self._reader.add(task.source, verdict.offset)
        return task

    def _seek(self, task: Task) -> None:
        task.replica.reached_end = False
        low, _ = self._reader.bounds(task.source)
        self._reader.add(task.source, max(low, task.replica.offset))

    def _let_go(self, number: int) -> None:
        task = self._tasks.pop(number)
        self._reader.remove(task.source)
        task.close()

    def _release(self, folder: str) -> bool:
        with self._lock:
            number = next((n for n, task in self._tasks.items() if str(task.path) == folder), None)
            if number is None:
                return False
            self._let_go(number)
            return True

    def _failed_status(self, plan: TaskPlan, error: StatefulStreamsError) -> TaskStatus:
        task = self._tasks.get(plan.task)
        if task is not None:
            task.disown()
        if isinstance(error, (StoreCorruptedError, StoreOutdatedError)) and task is not None:
            self._let_go(plan.task)  # opened again, or restored afresh, by the next call
        return TaskStatus(
            plan.task,
            plan.role,
            TaskState.OWNING if plan.role is Role.ACTIVE else TaskState.FOLLOWING,
            plan.generation,
            error=str(error),
            error_kind=type(error).__name__,
        )

    # -- restoring and following: one loop -----------------------------------------------------------------------

    def _follow(self, until: float) -> None:
        """Apply what the changelogs hold, for standbys for ever and for actives up to their end."""
        while any(task.state in (TaskState.FOLLOWING, TaskState.RESTORING) for task in self._tasks.values()):
            self._finish_restored()
            batches = self._reader.read(_READ_RECORDS, _POLL_S)
            by_source = {task.source: task for task in self._tasks.values()}
            for source, batch in batches.items():
                by_source[source].replica.apply(batch)
            self._finish_restored()
            behind = any(not task.replica.reached_end for task in self._following())
            if time.monotonic() >= until or not behind:
                return

    def _following(self) -> list[Task]:
        return [t for t in self._tasks.values() if t.state in (TaskState.FOLLOWING, TaskState.RESTORING)]

    def _finish_restored(self) -> None:
        for task in self._tasks.values():
            # Owned, so the end cannot move: at the end means all of it.
            if task.state is TaskState.RESTORING and task.replica.reached_end and task.replica.lag_records == 0:
                task.commit_record  # noqa: B018 - raises when the changelog is another application's
                task.state = TaskState.RUNNING
                self._reader.remove(task.source)

    # -- processing ----------------------------------------------------------------------------------------------

    def _process(self, rows: pa.Table, rows_of: tuple[int, ...], attempts_left: bool) -> None:
        for number, part in _by_task(rows).items():
            task = self._tasks.get(number)
            if number not in rows_of or task is None:
                continue
            if task.state is TaskState.RESTORING:
                # A fresh worker after a crash: what it lacks is most often little.
                self._follow(time.monotonic() + _CATCH_UP_S)
            if task.state is not TaskState.RUNNING:
                continue  # the driver sees it, and a new query begins where the task stopped
            try:
                active_step(task, part, self._reader.consumer)
            except RecordError as error:
                task.disown()
                if attempts_left:
                    raise
                task.fail(error)
            except FencedError as error:
                # Not ours any more: wait for a newer assignment.
                task.disown()
                task.error, task.state = error, TaskState.CLOSED
            except StatefulStreamsError:
                # What the commit did is in the changelog, not in the store: own and restore again before going on.
                task.disown()
                raise


def _by_task(rows: pa.Table) -> Mapping[int, pa.Table]:
    """The rows of each task. Spark reads one partition after the other, so each is one run of rows."""
    numbers = rows.column("__task").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    found: dict[int, pa.Table] = {}
    for begin, end in itertools.pairwise(edges):
        if end > begin:
            number, part = int(numbers[begin]), rows.slice(begin, end - begin)
            found[number] = pa.concat_tables([found[number], part]) if number in found else part
    return found
