"""One instance of a tested job: a worker's slot with all tasks, and a folder for its stores."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState, TaskStatus
from airflow_provider.errors import DeadlineError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.planner.compiled_job import CompiledJob
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import SlotPlan, TaskPlan
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.testing.in_memory_clients import InMemoryClients, InMemoryLog

CLOCK_BEGINS_MS: Final = 1_700_000_000_000
"""The time of the first micro-batch: the same in every run."""

_BUDGET_S: Final = 1.0
_DEADLINE_S: Final = 60.0
_NO_CLUSTER: Final = KafkaConnection("in-memory")


class TestedInstance:
    """Holds all tasks of a job in one role, as the plans of an assignment would say.

    Args:
        idle_clock: seconds, by which the source is without records; one that stands still by default.
    """

    __test__ = False

    def __init__(
        self,
        name: str,
        job: CompiledJob,
        folder: Path,
        log: InMemoryLog,
        idle_clock: Callable[[], float] = float,
    ) -> None:
        self._job, self._log, self._idle_clock = job, log, idle_clock
        self._settings = InstanceSettings(
            application_id=job.application_id,
            instance=name,
            incarnation=0,
            state_dir=str(folder / name / "state"),
            run_dir=str(folder / name / "run"),
            connection=_NO_CLUSTER,
        )
        self._role, self._generation = Role.STANDBY, 0
        self._slot: Slot | None = None

    @property
    def tasks(self) -> Mapping[TaskId, Task]:
        """Its open tasks by partition."""
        return {} if self._slot is None else self._slot.tasks

    def error(self, task_id: TaskId) -> Exception | None:
        """Why a task stopped, or what went wrong with it in the last call; None where nothing did."""
        return None if self._slot is None else self._slot.error(task_id)

    def become(self, role: Role, generation: int) -> None:
        """Be active or standby for all tasks; returns once they are restored, or at the end of their changelogs.

        A task that failed is waited for no longer; its error says why.

        Raises:
            DeadlineError: the tasks did not get there.
        """
        self._role, self._generation = role, generation
        wanted = TaskState.RUNNING if role is Role.ACTIVE else TaskState.FOLLOWING
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            statuses = self._call(())
            under_way = [s for s in statuses if s.state is not TaskState.FAILED]
            late = [s for s in under_way if s.state is not wanted or (s.lag_records or 0) > 0]
            if not late:
                return
            if time.monotonic() > deadline:
                found = ", ".join(f"task {s.task} is {s.state.name} ({s.error or 'no error'})" for s in late)
                raise DeadlineError(
                    f"After {_DEADLINE_S:g} s the tasks of {self._settings.instance!r} are not {wanted.name}: {found}."
                )

    def process(
        self, rows: Iterable[pa.RecordBatch], stage: int, idle: Collection[TaskId] | None = None
    ) -> tuple[TaskStatus, ...]:
        """Process a micro-batch, in the only attempt that Spark makes on a local master: what is wrong stops its task.

        Args:
            idle: the tasks whose sources hold nothing more then; None for all.

        Returns:
            The status of every task.
        """
        return self._call(rows, self._job.stage(stage).tasks, idle)

    def tick(self) -> None:
        """Do what is due by the clock."""
        self._call(())

    def close(self) -> None:
        """Shut down; the stores stay."""
        if self._slot is not None:
            self._slot.close()
            self._slot = None

    def change_job(self, job: CompiledJob) -> None:
        """Run another version of the job from now on; it has to be closed."""
        self._job = job

    def remove_stores(self) -> None:
        """Lose the disk; it has to be closed."""
        shutil.rmtree(self._settings.state_dir, ignore_errors=True)

    def _call(
        self,
        batches: Iterable[pa.RecordBatch],
        rows_of: Collection[TaskId] = (),
        idle: Collection[TaskId] | None = None,
    ) -> tuple[TaskStatus, ...]:
        if self._slot is None:
            # Every process of an instance has a greater incarnation than the one before.
            self._settings = dataclasses.replace(self._settings, incarnation=self._settings.incarnation + 1)
            self._slot = Slot(self._plan(), self._clients(), self._idle_clock)
        return self._slot.call(self._plan(rows_of, idle), batches, attempts_left=False)

    def _clients(self) -> InMemoryClients:
        between = {stage.source.topic: stage.num_tasks for stage in self._job.stages if stage.source.from_stage}
        return InMemoryClients(self._log, between)

    def _plan(self, rows_of: Collection[TaskId] = (), idle: Collection[TaskId] | None = None) -> SlotPlan:
        return SlotPlan(
            settings=self._settings,
            stages=self._job.specs,
            slot=0,
            tasks=tuple(TaskPlan(task=id_, role=self._role, generation=self._generation) for id_ in self._job.tasks),
            budget_s=_BUDGET_S,
            number=2 * self._generation + (self._role is Role.ACTIVE),
            rows_of=dict.fromkeys(rows_of),
            idle=frozenset(self._job.tasks if idle is None else idle),
            clock_ms=CLOCK_BEGINS_MS + int(self._idle_clock() * 1000),
        )
