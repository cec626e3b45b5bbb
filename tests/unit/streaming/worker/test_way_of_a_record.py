"""How many files somebody reads who follows one record, or one promotion, through the worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import SlotPlan, TaskPlan
from airflow_provider.testing.in_memory_clients import InMemoryClients, InMemoryLog
from tests.unit.streaming.worker.bench import active, commit_elsewhere, instance_settings, job_spec, rows, standby
from tests.unit.streaming.worker.trace import Trace, trace

TASK: Final = TaskId(0, 0)

RECORD_FILES, RECORD_CHANGES = 32, 128
AGGREGATED_FILES = 37
ROUND_FILES = 17
PROMOTION_FILES = 26
"""They only go down. A file that comes to one of these ways has to earn its place on it."""


class OneTask:
    """A slot that holds one task of a job with that operation."""

    def __init__(self, folder: Path, operation: Operation | None = None) -> None:
        self._settings = instance_settings(folder)
        self._job = job_spec() if operation is None else dataclasses.replace(job_spec(), operation=operation)
        self.log = InMemoryLog()
        self._slot: Slot | None = None

    def hold(self, plan: TaskPlan) -> None:
        self.call(self.plan(plan))

    def plan(self, plan: TaskPlan, rows_of: tuple[TaskId, ...] = ()) -> SlotPlan:
        stages: dict[int, StageSpec] = {0: self._job}
        return SlotPlan(
            settings=self._settings,
            stages=stages,
            slot=0,
            tasks=(plan,),
            budget_s=0.0,
            number=plan.generation,
            rows_of=dict.fromkeys(rows_of),
        )

    def call(self, plan: SlotPlan, batches: list[pa.RecordBatch] | None = None) -> TaskState:
        if self._slot is None:
            self._slot = Slot(plan, InMemoryClients(self.log))
        (status,) = self._slot.call(plan, batches or [], attempts_left=False)
        return status.state

    def close(self) -> None:
        if self._slot is not None:
            self._slot.close()


@pytest.fixture
def one(tmp_path: Path) -> Iterator[OneTask]:
    one = OneTask(tmp_path)
    yield one
    one.close()


def batches(offset: int) -> list[pa.RecordBatch]:
    """One row, as Spark brings it."""
    arrived = rows(5, begin=offset).append_column("__partition", pa.array([0], pa.int32()))
    table: list[pa.RecordBatch] = arrived.append_column("__value", pa.array([b"{}"], pa.binary())).to_batches()
    return table


def of_second_record(one: OneTask) -> Trace:
    plan = one.plan(active(0), rows_of=(TASK,))
    for _ in range(3):
        one.hold(active(0))
    assert one.call(plan, batches(0)) is TaskState.RUNNING
    return trace(lambda: one.call(plan, batches(1)))


def test_a_record_goes_through_few_files(one: OneTask) -> None:
    way = of_second_record(one)

    assert len(way.files) <= RECORD_FILES, way.files
    assert way.changes <= RECORD_CHANGES, way


def test_a_record_that_is_aggregated_goes_through_the_arithmetic_besides(tmp_path: Path) -> None:
    total = Aggregate(name="total", function=Function.SUM, column="amount")
    one = OneTask(tmp_path, Aggregation((total,)))

    way = of_second_record(one)
    one.close()

    assert len(way.files) <= AGGREGATED_FILES, way.files


def test_a_round_in_which_nothing_happens_goes_through_fewer(one: OneTask) -> None:
    plan = one.plan(active(0))
    for _ in range(3):
        one.call(plan)

    way = trace(lambda: one.call(plan))

    assert len(way.files) <= ROUND_FILES, way.files


def test_a_promotion_goes_through_few_files(one: OneTask) -> None:
    commit_elsewhere(one.log, 0, 1, a=1)
    one.hold(standby(0))
    assert one.call(one.plan(standby(0))) is TaskState.FOLLOWING
    plan, states = one.plan(active(0, generation=2)), list[TaskState]()

    way = trace(lambda: states.append(one.call(plan)))

    assert states == [TaskState.RUNNING]
    assert len(way.files) <= PROMOTION_FILES, way.files
