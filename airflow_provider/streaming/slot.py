"""A Python worker's tasks: opened, owned, restored, followed, processed, let go."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.control.status import Role, TaskState, TaskStatus
from airflow_provider.errors import (
    BrokerUnreachableError,
    FencedError,
    StateError,
    StatefulStreamsError,
    StoreCorruptedError,
    StoreDivergedError,
    StoreOutdatedError,
    WorkerError,
)
from airflow_provider.failpoint import FailPoints
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.active_step import active_step
from airflow_provider.streaming.attempts import Attempts
from airflow_provider.streaming.certification import Certification
from airflow_provider.streaming.handover import Handover
from airflow_provider.streaming.plan import SlotPlan, TaskPlan
from airflow_provider.streaming.replica_opening import open_replica, where_to_start
from airflow_provider.streaming.task import Task

__all__ = ["Slot"]

_READ_RECORDS = 10_000
_POLL_S = 0.02
_CATCH_UP_S = 0.5
_REFRESH_TIMEOUT_S = 1.0
_OWN_AGAIN_S = 5.0


class Slot:
    """Everything that one Python worker holds between calls.

    One call at a time: the driver sees to that, and a lock keeps another worker's request for a store out meanwhile.

    Args:
        plan: of the first call; later ones are obeyed as they come.
    """

    def __init__(self, plan: SlotPlan) -> None:
        self._settings, self._job = plan.settings, plan.job
        self._tasks: dict[int, Task] = {}
        self._plans: dict[int, TaskPlan] = {}
        self._certifications = collections.defaultdict[int, Certification](Certification)
        self._troubles: dict[int, StatefulStreamsError] = {}
        self._given_up: dict[int, tuple[TaskPlan, StateError]] = {}
        self._set_aside = True  # what an earlier process left in quarantine counts too
        self._lock = threading.RLock()
        self._directory = StateDirectory(Path(plan.settings.state_dir), plan.job.application_id)
        self._max_deaths, self._attempts = plan.max_deaths, Attempts(Path(plan.settings.run_dir))
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
            self._obey(plan)
            passed_over = set() if rows is None else self._process(rows, plan.rows_of, attempts_left)
            self._follow(time.monotonic() + plan.budget_s)
            return tuple(self._status(task, task.task in passed_over) for task in plan.tasks)

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            for number in list(self._tasks):
                self._let_go(number)
            self._reader.close()
            self._handover.close()

    # -- obeying a plan ------------------------------------------------------------------------------------------

    def _obey(self, plan: SlotPlan) -> None:
        self._settings, self._job, self._max_deaths = plan.settings, plan.job, plan.max_deaths
        self._plans = {task.task: task for task in plan.tasks}
        for number in [n for n in self._tasks if n not in self._plans]:
            self._let_go(number)
        self._troubles = {}  # every call tries anew
        for task_plan in plan.tasks:
            with self._own_trouble(task_plan.task):
                self._hold(task_plan)
        for task in self._tasks.values():
            if task.fenced_for_s > _OWN_AGAIN_S:
                # Whoever fenced it was outdated: by now a newer assignment would have come.
                task.take()
        self._own([task for task in self._tasks.values() if task.state is TaskState.OWNING])

    def _hold(self, plan: TaskPlan) -> None:
        number = plan.task
        store = self._job.store
        if self._is_given_up(plan):
            return
        asked = plan.replay is not None and self._directory.replayed(number, store) != plan.replay
        if asked:
            self._let_go(number)
        if number not in self._tasks:
            replica = open_replica(
                self._job, number, self._directory, self._reader, self._handover.address, asked, _yields(plan)
            )
            self._tasks[number] = Task(self._settings, self._job, plan, replica, self._failpoints)
            self._tasks[number].distrust_digest = asked  # a replay renews it too
            if asked and plan.replay is not None:
                self._directory.note_replay(number, store, plan.replay)
        if plan != self._tasks[number].plan:
            self._change_role(self._tasks[number], plan)

    def _own(self, tasks: list[Task]) -> None:
        """Step 1, for several tasks at once: each waits for the brokers to abort what a dead owner left open."""
        if not tasks:
            return
        with ThreadPoolExecutor(len(tasks)) as pool:
            owned = [(task, pool.submit(task.own)) for task in tasks]
        for task, done in owned:
            with self._own_trouble(task.number):
                done.result()
                # Nobody else can add to the changelog now: the end that is asked for here is the last.
                _, end = self._reader.bounds(task.source)
                task.replica.expect(end)
                self._seek(task)

    def _change_role(self, task: Task, plan: TaskPlan) -> None:
        before, task.plan = task.plan, plan
        if before.role is plan.role and before.generation == plan.generation:
            return
        if plan.role is Role.ACTIVE:
            task.distrust_digest = self._certifications[task.number].leave()
            task.take()
        elif before.role is Role.ACTIVE:
            task.disown()
            task.error, task.state, task.owned_at_ms = None, TaskState.FOLLOWING, None
            self._seek(task)

    def _seek(self, task: Task) -> None:
        task.replica.reached_end = False
        self._reader.add(task.source, where_to_start(task.replica, self._reader, self._job.delete_retention_ms))

    def _let_go(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is not None:
            self._reader.remove(task.source)
            self._certifications[number].leave()
            task.close()

    def _release(self, folder: str) -> bool:
        with self._lock:
            number = next((n for n, task in self._tasks.items() if str(task.path) == folder), None)
            if number is None:
                return False
            self._let_go(number)
            return True

    @contextlib.contextmanager
    def _own_trouble(self, number: int) -> Iterator[None]:
        """One task's trouble is its own: told in its status, tried again by the next call; the others go on."""
        try:
            yield
        except (StatefulStreamsError, OSError) as raised:
            error = _unusable(self._directory.path, raised) if isinstance(raised, OSError) else raised
            self._troubles[number] = error
            if number in self._tasks:
                self._tasks[number].disown()
            if isinstance(error, StateError):
                self._lose_store(number, error)

    def _lose_store(self, number: int, error: StateError) -> None:
        """A standby takes over where there is one; else the next call opens the store again, or restores an empty one.

        RocksDB refuses everything after a write that failed, even when the disk has room again: so it is closed.
        """
        task = self._tasks.get(number)
        self._let_go(number)
        if isinstance(error, (StoreCorruptedError, StoreOutdatedError, StoreDivergedError)):
            # Not destroyed in place; where not even that can be done, the next call finds it again.
            with contextlib.suppress(OSError):
                self._directory.quarantine(number, self._job.store)
            self._set_aside = True
        plan = self._plans.get(number) if task is None else task.plan
        if plan is not None and _yields(plan):
            self._given_up[number] = (plan, error)

    def _is_given_up(self, plan: TaskPlan) -> bool:
        """Whether this owner lost its store and a standby is to take over: until the next generation says otherwise."""
        given_up = self._given_up.get(plan.task)
        if given_up is not None and (given_up[0].role, given_up[0].generation) == (plan.role, plan.generation):
            return plan.has_standbys
        self._given_up.pop(plan.task, None)
        return False

    def _status(self, plan: TaskPlan, passed_over: bool) -> TaskStatus:
        task, trouble = self._tasks.get(plan.task), self._troubles.get(plan.task)
        if task is None and self._is_given_up(plan):
            lost = self._given_up[plan.task][1]
            why = f"{lost} A standby is to take over."
            return TaskStatus(
                plan.task, plan.role, TaskState.FAILED, plan.generation, error=why, error_kind=type(lost).__name__
            )
        if task is not None:
            status = task.status()
            if passed_over and status.state is TaskState.RUNNING:
                # Restored just after its rows were passed over: if it were told as running, the next would be a gap.
                status = dataclasses.replace(status, state=TaskState.RESTORING)
        else:
            state = TaskState.OWNING if plan.role is Role.ACTIVE else TaskState.FOLLOWING
            status = TaskStatus(plan.task, plan.role, state, plan.generation)
        if trouble is not None and status.error is None:
            status = dataclasses.replace(status, error=str(trouble), error_kind=type(trouble).__name__)
        return self._certifications[plan.task].told(status)

    # -- restoring and following: one loop -----------------------------------------------------------------------

    def _follow(self, until: float) -> None:
        """Apply what the changelogs hold, for standbys for ever and for actives up to their end."""
        for task in list(self._tasks.values()):
            with self._own_trouble(task.number):
                self._refresh(task)
        while any(task.state in (TaskState.FOLLOWING, TaskState.RESTORING) for task in self._tasks.values()):
            self._finish_restored()
            batches = self._reader.read(_READ_RECORDS, _POLL_S)
            by_source = {task.source: task for task in self._tasks.values()}
            for source, batch in batches.items():
                task = by_source[source]
                with self._own_trouble(task.number):
                    task.replica.apply(batch)
                    task.check()
                    if task.state is TaskState.FAILED:
                        self._reader.remove(source)
            self._finish_restored()
            self._certify()
            behind = any(not task.replica.reached_end for task in self._following())
            if not behind and self._set_aside:
                self._prune()
            if time.monotonic() >= until or not behind:
                return

    def _certify(self) -> None:
        """Compare the standbys' stores with their actives', one at a time."""
        if (interval_s := self._job.certify_interval_s) is None:
            return
        for task in self._following():
            checking = any(certification.checking for certification in self._certifications.values())
            if task.state is TaskState.FOLLOWING:
                with self._own_trouble(task.number):
                    self._certifications[task.number].mind(task, interval_s, may_begin=not checking)

    def _prune(self) -> None:
        """Every successor is whole: what they replaced need no longer all be kept."""
        whole = [(number, self._job.store) for number in self._tasks]
        self._directory.prune(whole, self._settings.quarantine_max_stores, self._settings.quarantine_max_bytes)
        self._set_aside = False

    def _following(self) -> list[Task]:
        return [t for t in self._tasks.values() if t.state in (TaskState.FOLLOWING, TaskState.RESTORING)]

    def _finish_restored(self) -> None:
        for task in list(self._tasks.values()):
            # Owned, so the end cannot move: at the end means all of it.
            if task.state is TaskState.RESTORING and task.replica.reached_end and task.replica.lag_records == 0:
                with self._own_trouble(task.number):
                    task.run()
                    self._reader.remove(task.source)

    def _refresh(self, task: Task) -> None:
        """Tell a quiet store from one that slept: while its changelog holds nothing more, it is as if just applied."""
        if not task.replica.quiet:
            return
        with contextlib.suppress(BrokerUnreachableError):
            _, end = self._reader.bounds(task.source, timeout_s=_REFRESH_TIMEOUT_S)
            # Behind the last commit of a running task lies that commit's marker.
            if end <= task.replica.offset + (task.state is TaskState.RUNNING):
                task.replica.refresh()

    # -- processing ----------------------------------------------------------------------------------------------

    def _process(self, rows: pa.Table, rows_of: tuple[int, ...], attempts_left: bool) -> set[int]:
        """Process what can be; returns the tasks whose rows were passed over."""
        passed_over = set()
        for number, part in _by_task(rows).items():
            task = self._tasks.get(number)
            if number not in rows_of:
                continue
            if task is not None and task.state is TaskState.RESTORING:
                # A fresh worker after a crash: what it lacks is most often little.
                self._follow(time.monotonic() + _CATCH_UP_S)
            if task is not None and task.state is TaskState.RUNNING:
                self._step(task, part, attempts_left)
            else:
                passed_over.add(number)  # the driver sees it, and a new query begins where the task stopped
        return passed_over

    def _step(self, task: Task, rows: pa.Table, attempts_left: bool) -> None:
        try:
            self._refuse_deadly(task)
            active_step(task, rows, self._reader.consumer)
        except FencedError as error:
            task.give_up(error)
        except StateError as error:
            with self._own_trouble(task.number):
                raise error
        except Exception as error:
            # What the commit did is in the changelog, not in the store: own and restore again before going on.
            task.disown()
            if isinstance(error, BrokerUnreachableError) or (attempts_left and not isinstance(error, WorkerError)):
                raise
            task.fail(error)
        finally:
            self._attempts.end(task.number)

    def _refuse_deadly(self, task: Task) -> None:
        died = self._attempts.begin(task.number, task.plan.generation, task.source_offset)
        if died >= self._max_deaths:
            raise WorkerError(
                f"{died} worker(s) ended in the middle of the batch of {task.job.source_topic}[{task.number}] that "
                f"begins at offset {task.source_offset or 0}: they crashed, or took longer than call_timeout_s "
                f"({self._settings.call_timeout_s:g} s) and were ended. Look into the instance's log and at the "
                "records there, then mend the job's function or its libraries."
            )


def _unusable(folder: Path, error: OSError) -> StateError:
    return StateError(f"The state folder {folder} cannot be used ({error}): check the disk's space and permissions.")


def _yields(plan: TaskPlan) -> bool:
    """Whether a lost store is a standby's turn rather than a restore in place."""
    return plan.role is Role.ACTIVE and plan.has_standbys


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
