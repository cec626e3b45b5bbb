"""The tasks that a slot holds: opened, owned, let go, and what befell each."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.control.status import Role, TaskState, TaskStatus
from airflow_provider.errors import (
    StateError,
    StatefulStreamsError,
    StoreCorruptedError,
    StoreDivergedError,
    StoreLockedError,
    StoreOutdatedError,
)
from airflow_provider.failpoint import FailPoints
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.certification import Certification
from airflow_provider.streaming.plan import SlotPlan, TaskPlan
from airflow_provider.streaming.replica_opening import open_replica, where_to_start
from airflow_provider.streaming.task import Task
from airflow_provider.streaming.task_snapshots import TaskSnapshots

__all__ = ["Holdings"]

_OWN_AGAIN_S = 5.0
_LOCK_TIMEOUT_S = 20.0


class Holdings:
    """Owns which tasks are open here, in which role, and why one is not.

    Args:
        plan: of the first call; later ones are obeyed as they come.
        reader: gets the changelogs of the tasks.
        address: of this worker's handover.
    """

    def __init__(self, plan: SlotPlan, reader: ChangelogReader, address: str) -> None:
        self.settings, self.job, self.reader, self._address = plan.settings, plan.job, reader, address
        self.tasks: dict[int, Task] = {}
        self.set_aside = True  # what an earlier process left in quarantine counts too
        self.directory = StateDirectory(Path(plan.settings.state_dir), plan.job.application_id)
        self.certifications = collections.defaultdict[int, Certification](Certification)
        self._snapshots: dict[int, TaskSnapshots] = {}
        self._plans: dict[int, TaskPlan] = {}
        self._by_ranges: set[int] = set()
        self._troubles: dict[int, StatefulStreamsError] = {}
        self._given_up: dict[int, tuple[TaskPlan, StateError]] = {}
        self._failpoints = FailPoints(plan.settings.fail_points, Path(plan.settings.run_dir))

    def obey(self, plan: SlotPlan) -> None:
        """Hold what the plan names, in its roles; let go of the rest."""
        self.settings, self.job = plan.settings, plan.job
        self._plans = {task.task: task for task in plan.tasks}
        for number in [n for n in self.tasks if n not in self._plans]:
            self.let_go(number)
        before, self._troubles = self._troubles, {}  # every call tries anew
        for task_plan in plan.tasks:
            with self.own_trouble(task_plan.task):
                # Whoever did not let go of a store once is not waited for again: the other tasks would wait too.
                patient = not isinstance(before.get(task_plan.task), StoreLockedError)
                self._hold(task_plan, _LOCK_TIMEOUT_S if patient else 0.0)
        for task in self.tasks.values():
            if task.fenced_for_s > _OWN_AGAIN_S:
                # Whoever fenced it was outdated: by now a newer assignment would have come.
                task.take()
        self._own([task for task in self.tasks.values() if task.state is TaskState.OWNING])

    def _hold(self, plan: TaskPlan, lock_timeout_s: float) -> None:
        number = plan.task
        store = self.job.store
        if self._is_given_up(plan):
            return
        asked = plan.replay is not None and self.directory.replayed(number, store) != plan.replay
        if asked:
            self.let_go(number)
        if number not in self.tasks:
            if self._awaits_snapshot(number, asked):
                return
            # With snapshots a bad store is not replaced at once: an empty one may be filled by them.
            strict = _yields(plan) or self.job.snapshots is not None
            replica = open_replica(
                self.job, number, self.directory, self.reader, self._address, asked, strict, lock_timeout_s
            )
            self.tasks[number] = Task(self.settings, self.job, plan, replica, self._failpoints)
            self.tasks[number].distrust_digest = asked  # a replay renews it too
            if asked and plan.replay is not None:
                self.directory.note_replay(number, store, plan.replay)
        if plan != self.tasks[number].plan:
            self._change_role(self.tasks[number], plan)
        self._take_ranges(self.tasks[number])

    def _take_ranges(self, task: Task) -> None:
        """Take over what others read for this task, which reads nothing meanwhile; read again when they are done."""
        if task.plan.ranges is None:
            if task.number in self._by_ranges:
                self._by_ranges.remove(task.number)
                self._seek(task)
            return
        if task.number not in self._by_ranges:
            self._by_ranges.add(task.number)
            self.reader.remove(task.source)
        for table_range in task.plan.ranges:
            task.replica.ingest(table_range)

    def _awaits_snapshot(self, number: int, asked: bool) -> bool:
        """Whether the store is being fetched. A replay, or a store that differed, wants the changelog alone."""
        snapshots = self.snapshots_of(number)
        if asked or self.certifications[number].diverged:
            if self.job.snapshots is not None:
                snapshots.not_used("a replay was asked for" if asked else "the store differed from its active's")
            return False
        return snapshots.restoring(self.job, self.directory.store(number, self.job.store), self.reader)

    def snapshots_of(self, number: int) -> TaskSnapshots:
        """What is known of a task's snapshots, whether the task is held or not."""
        if number not in self._snapshots:
            self._snapshots[number] = TaskSnapshots(self.settings.connection, self.settings.instance, number)
        return self._snapshots[number]

    def await_snapshots(self, seconds: float) -> None:
        """Wait for the stores that are being fetched, where there is nothing else to do."""
        deadline = time.monotonic() + seconds
        for snapshots in self._snapshots.values():
            snapshots.wait(max(0.0, deadline - time.monotonic()))

    def _own(self, tasks: list[Task]) -> None:
        """Step 1, for several tasks at once: each waits for the brokers to abort what a dead owner left open."""
        if not tasks:
            return
        with ThreadPoolExecutor(len(tasks)) as pool:
            owned = [(task, pool.submit(task.own)) for task in tasks]
        for task, done in owned:
            with self.own_trouble(task.number):
                done.result()
                # Nobody else can add to the changelog now: the end that is asked for here is the last.
                _, end = self.reader.bounds(task.source)
                task.replica.expect(end)
                self._seek(task)

    def _change_role(self, task: Task, plan: TaskPlan) -> None:
        before, task.plan = task.plan, plan
        if before.role is plan.role and before.generation == plan.generation:
            return
        if plan.role is Role.ACTIVE:
            task.distrust_digest = self.certifications[task.number].leave()
            task.take()
        elif before.role is Role.ACTIVE:
            task.disown()
            task.error, task.state, task.owned_at_ms = None, TaskState.FOLLOWING, None
            self._seek(task)

    def _seek(self, task: Task) -> None:
        task.replica.reached_end = False
        offset = where_to_start(task.replica, self.reader, self.job.delete_retention_ms)
        if task.number not in self._by_ranges:
            self.reader.add(task.source, offset)

    def let_go(self, number: int) -> None:
        """Close the task's store; its lock is free afterwards."""
        task = self.tasks.pop(number, None)
        self._by_ranges.discard(number)
        if task is not None:
            self.reader.remove(task.source)
            self.certifications[number].leave()
            task.close()

    def release(self, folder: str) -> bool:
        """Let go of the task whose store lies there; false when none is held."""
        number = next((n for n, task in self.tasks.items() if str(task.path) == folder), None)
        if number is None:
            return False
        self.let_go(number)
        return True

    @contextlib.contextmanager
    def own_trouble(self, number: int) -> Iterator[None]:
        """One task's trouble is its own: told in its status, tried again by the next call; the others go on."""
        try:
            yield
        except (StatefulStreamsError, OSError) as raised:
            error = _unusable(self.directory.path, raised) if isinstance(raised, OSError) else raised
            self._troubles[number] = error
            if number in self.tasks:
                self.tasks[number].disown()
            if isinstance(error, StateError):
                self._lose_store(number, error)

    def _lose_store(self, number: int, error: StateError) -> None:
        """A standby takes over where there is one; else the next call opens the store again, or restores an empty one.

        RocksDB refuses everything after a write that failed, even when the disk has room again: so it is closed.
        """
        task = self.tasks.get(number)
        self.let_go(number)
        if isinstance(error, (StoreCorruptedError, StoreOutdatedError, StoreDivergedError)):
            # Not destroyed in place; where not even that can be done, the next call finds it again.
            with contextlib.suppress(OSError):
                self.directory.quarantine(number, self.job.store)
            self.set_aside = True
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

    def status(self, plan: TaskPlan, passed_over: bool) -> TaskStatus:
        """How the task is, its trouble included; `passed_over` when rows of it were not processed."""
        task, trouble = self.tasks.get(plan.task), self._troubles.get(plan.task)
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
        return self.snapshots_of(plan.task).told(self.certifications[plan.task].told(status))


def _unusable(folder: Path, error: OSError) -> StateError:
    return StateError(f"The state folder {folder} cannot be used ({error}): check the disk's space and permissions.")


def _yields(plan: TaskPlan) -> bool:
    """Whether a lost store is a standby's turn rather than a restore in place."""
    return plan.role is Role.ACTIVE and plan.has_standbys
