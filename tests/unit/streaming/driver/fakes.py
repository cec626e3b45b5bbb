"""Small stand-ins for what the driver's parts are given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from airflow_provider.common.json_codec import to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState, TaskStatus
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming import stream
from airflow_provider.streaming.driver.spark.single_executor import StoreHost
from airflow_provider.streaming.driver.spark.spark_session import ARROW_BATCH_BYTES, MAX_BYTES_PER_BATCH
from airflow_provider.streaming.functions import count
from airflow_provider.streaming.planner.compile import compile_job
from airflow_provider.streaming.planner.compiled_job import CompiledJob
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.worker.tasks.plan import CallReport, TaskPlan
from tests.builders import spark_types, task_id, task_status, topic_facts

T = TypeVar("T")

ACTIVE, STANDBY = Role.ACTIVE, Role.STANDBY
JOB = StatefulJob("app", stream("in").group_by("key").aggregate(count(), name="state"))


def compiled(job: StatefulJob = JOB) -> CompiledJob:
    return compile_job(job, topic_facts(job, 4), spark_types())


def settings_in(folder: Path, **more: Any) -> InstanceSettings:
    return InstanceSettings(
        application_id="app",
        instance="i1",
        incarnation=7,
        state_dir=str(folder / "state"),
        run_dir=str(folder / "run"),
        connection=KafkaConnection("nowhere:1"),
        **more,
    )


def plan(task: int | TaskId, role: Role = ACTIVE, generation: int = 1, **more: Any) -> TaskPlan:
    return TaskPlan(task=task_id(task), role=role, generation=generation, **more)


def status_of(
    task: int | TaskId, state: TaskState = TaskState.RUNNING, role: Role = ACTIVE, generation: int = 1, **more: Any
) -> TaskStatus:
    return task_status(task=task_id(task), role=role, state=state, generation=generation, **more)


class FakeRows:
    """Any narrow step of a query; `collect` is the worker's answer."""

    def __init__(self, answer: Callable[[], tuple[TaskStatus, ...]], rows: int = 0, bytes_: int = 0) -> None:
        self._answer = answer
        self._rows, self._bytes = rows, bytes_
        self.settings = {MAX_BYTES_PER_BATCH: str(ARROW_BATCH_BYTES)}
        self.sparkSession = SimpleNamespace(conf=SimpleNamespace(set=self.settings.__setitem__))

    def __getattr__(self, _: str) -> Any:
        return lambda *_: self

    def collect(self) -> list[Any]:
        return [SimpleNamespace(report=to_json(CallReport(self._answer(), self._rows, self._bytes)))]


class FakeSpark:
    """A session whose worker answers at once with `statuses`, or fails with `error`; unless it is held up."""

    def __init__(self, *statuses: TaskStatus) -> None:
        self.statuses = statuses
        self.error: Exception | None = None
        self.calls = 0
        self.let = threading.Event()
        self.let.set()
        self.settings = {MAX_BYTES_PER_BATCH: str(ARROW_BATCH_BYTES)}
        self.conf = SimpleNamespace(get=self.settings.__getitem__)
        self.sparkContext = SimpleNamespace(master="local[1]", defaultParallelism=1, environment={})

    def range(self, _: int) -> FakeRows:
        return FakeRows(self.answer)

    def answer(self) -> tuple[TaskStatus, ...]:
        self.calls += 1
        self.let.wait(30)
        if self.error is not None:
            raise self.error
        return self.statuses


class FakeQuery:
    """A query of a slot."""

    def __init__(self, tasks: Mapping[TaskId, int | None], error: str | None = None, active_for_s: float = 0.0) -> None:
        self.tasks = frozenset(tasks)
        self.offsets = dict(tasks)
        self.error = error
        self.active = error is None
        self.active_for_s = active_for_s
        self.cleared = False

    def end(self) -> None:
        self.active, self.cleared = False, True


def here() -> StoreHost:
    """The driver's own host."""
    return StoreHost(cast(Any, FakeSpark()), "i1")


class Elsewhere(StoreHost):
    """An executor's host: notes which threads wait for it."""

    def __init__(self, lost: bool = False) -> None:
        self.is_here = False
        self.threads: set[str] = set()
        self.calls = 0
        self._lost = lost

    def call(self, function: Callable[[], T]) -> T:
        self.threads.add(threading.current_thread().name)
        self.calls += 1
        if self._lost:
            raise RuntimeError("the executor is lost")
        return function()
