"""Calls of a slot whose worker stays: over a real line, to a slot that does nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from airflow_provider.common.json_codec import to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskStatus
from airflow_provider.streaming.driver.slots.slot_calls import SlotCalls
from airflow_provider.streaming.driver.slots.slot_decisions import SlotGoal
from airflow_provider.streaming.driver.spark.spark_session import ARROW_BATCH_BYTES, MAX_BYTES_PER_BATCH
from airflow_provider.streaming.worker import stay as stays
from airflow_provider.streaming.worker.calls import answer_of
from airflow_provider.streaming.worker.tasks.line import Door, call_driver
from airflow_provider.streaming.worker.tasks.lost_input import LostInput, LostRecords
from airflow_provider.streaming.worker.tasks.plan import SlotPlan, SlotWork, WorkerSource
from tests.unit.streaming.driver.fakes import STANDBY, compiled, plan, settings_in, status_of
from tests.waiting import wait_until

TASK = TaskId(0, 0)
SOURCES: Mapping[int, WorkerSource] = MappingProxyType({0: WorkerSource(topic="in")})


class WorkersSlot:
    """The slot of a worker: it notes what it is asked for, and processes what a test gives it."""

    ready: Collection[int] = ()
    held: Collection[int] = ()

    def __init__(self) -> None:
        self.works: list[SlotWork] = []
        self.lost = LostRecords()
        self.offset = 0
        self.let = threading.Event()
        self.let.set()
        self.error: Exception | None = None
        self.read_error: Exception | None = None
        self.rows: list[int] = []

    def call(self, work: SlotWork, rows: Any, attempts_left: bool) -> tuple[TaskStatus, ...]:
        self.works.append(work)
        if self.error is not None:
            raise self.error
        return self.report(work)

    def read_sources(self, work: SlotWork, clock_ms: int | None, on_rows: Callable[[], None]) -> bool:
        if self.read_error is not None:
            raise self.read_error
        if self.rows and work.reads:
            on_rows()
            self.let.wait(30)
            self.offset += self.rows.pop()
        return False

    def report(self, work: SlotWork) -> tuple[TaskStatus, ...]:
        return tuple(status_of(one.task, source_offset=self.offset) for one in work.tasks)


class StaySpark:
    """A session whose worker is a thread that calls the slot."""

    def __init__(self, slot: WorkersSlot) -> None:
        self.slot = slot
        self.plans: list[SlotPlan] = []
        self.under_way = 0
        self.reaches_driver = True
        settings = {MAX_BYTES_PER_BATCH: str(ARROW_BATCH_BYTES)}
        self.conf = SimpleNamespace(get=settings.__getitem__, set=settings.__setitem__)
        self.sparkContext = SimpleNamespace(master="local[1]", environment={})
        self.sparkSession = self

    def __getattr__(self, _: str) -> Any:
        return lambda *_: self

    def mapInArrow(self, function: Any, _: str) -> Any:
        return SimpleNamespace(collect=lambda: self._collect(function.args[0]))

    def _collect(self, of: SlotPlan) -> list[Any]:
        assert self.under_way == 0, "one worker gets every call of the slot, one at a time"
        self.under_way += 1
        self.plans.append(of)
        try:
            return [SimpleNamespace(report=to_json(answer_of(self.slot, of, (), False, self._connect)))]  # type: ignore[arg-type]
        finally:
            self.under_way -= 1

    def _connect(self, address: Any) -> Any:
        if not self.reaches_driver:
            raise ConnectionRefusedError
        return call_driver(address)


class Bench:
    """Calls of a slot with one active task."""

    def __init__(self, folder: Path, open_door: Callable[[], Door] = Door.local, **settings: Any) -> None:
        self.slot = WorkersSlot()
        self.spark = StaySpark(self.slot)
        self.goal = SlotGoal((plan(0),))
        self.reported: list[tuple[TaskStatus, ...]] = []
        self.over = threading.Event()
        spark: Any = self.spark
        self.calls = SlotCalls(
            spark,
            compiled().specs,
            settings_in(folder, **settings),
            0,
            lambda: self.goal,
            self.reported.append,
            sources=SOURCES,
            open_door=open_door,
            on_stay_over=self.over.set,
        )

    def end(self) -> None:
        self.goal = self.goal.followed_by((), False, stopping=True)
        self.calls.round()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker looks at its source often: nothing here tells it that something has come."""
    monkeypatch.setattr(stays, "_LONGEST_WAIT_S", 0.01)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.slot.error = None
    bench.slot.let.set()
    bench.end()


def test_rounds_are_calls_over_the_line_of_one_call_of_sparks(bench: Bench) -> None:
    for _ in range(3):
        bench.calls.round()

    assert len(bench.spark.plans) == 1
    assert [work.call for work in bench.slot.works] == [1, 2, 3]
    assert len(bench.reported) == 3
    assert bench.calls.called_for_s == 0.0


def test_worker_reads_for_its_active_tasks_unless_they_are_paused(bench: Bench) -> None:
    bench.goal = SlotGoal((plan(0), plan(1, STANDBY)))
    bench.calls.round()
    bench.goal = bench.goal.followed_by(bench.goal.tasks, paused=True)
    bench.calls.round()

    assert [work.reads for work in bench.slot.works] == [(TASK,), ()]
    assert bench.slot.works[1].clock_ms is None


def test_what_the_worker_processes_by_itself_is_reported_and_is_no_round(bench: Bench) -> None:
    bench.calls.round()
    called_at = bench.calls.report.called_at
    bench.slot.lost.count(TASK, LostInput(0, 3))
    bench.slot.rows.append(7)

    wait_until(lambda: bench.calls.report.statuses[TASK].source_offset == 7, 30, "the report")
    wait_until(lambda: bench.calls.lost.of_tasks == {TASK: 3}, 30, "what it went on without")
    assert bench.reported[-1][0].source_offset == 7
    assert bench.calls.report.called_at == called_at, "when it is called again is not put off"


def test_micro_batch_under_way_is_known(bench: Bench) -> None:
    bench.calls.round()
    assert bench.calls.batch_since is None
    bench.slot.let.clear()
    bench.slot.rows.append(1)

    wait_until(lambda: bench.calls.batch_since, 30, "the worker to be busy")
    bench.slot.let.set()
    wait_until(lambda: bench.calls.batch_since is None, 30, "the worker to be done")


def test_nothing_is_done_beside_what_happens_at_rest(bench: Bench) -> None:
    bench.calls.round()
    under_way: list[int] = []

    bench.calls.at_rest(lambda: under_way.append(bench.spark.under_way))

    assert under_way == [0]


def test_error_in_a_stay_is_that_of_the_next_round(bench: Bench) -> None:
    bench.calls.round()
    bench.slot.error = OSError("no room")

    with pytest.raises(OSError, match="no room"):
        bench.calls.round()
    assert bench.over.wait(30)
    bench.slot.error = None
    bench.calls.round()
    assert len(bench.spark.plans) == 2


def test_error_that_ends_a_stay_beside_what_happens_at_rest_is_the_next_rounds(bench: Bench) -> None:
    bench.calls.round()
    bench.slot.read_error = OSError("no room")
    assert bench.over.wait(30)
    bench.slot.read_error = None

    bench.calls.at_rest(lambda: None)

    with pytest.raises(OSError, match="no room"):
        bench.calls.round()
    bench.calls.round()


def test_stay_that_is_over_is_followed_by_another(tmp_path: Path) -> None:
    bench = Bench(tmp_path, call_timeout_s=0.2)
    bench.calls.round()
    assert bench.over.wait(30)

    bench.calls.round()

    assert len(bench.spark.plans) == 2
    bench.end()


def test_worker_that_never_reaches_the_driver_leaves_the_sources_to_spark(bench: Bench) -> None:
    bench.spark.reaches_driver = False
    assert bench.calls.reads(TASK)

    for _ in range(4):
        bench.calls.round()

    assert not bench.calls.reads(TASK)
    assert [of.stay is None for of in bench.spark.plans] == [False, False, False, True]
    assert len(bench.reported) == 4, "each of them did what it was called for"


def test_driver_that_can_await_no_worker_leaves_the_sources_to_spark(tmp_path: Path) -> None:
    def closed() -> Door:
        raise OSError("Cannot assign requested address")

    bench = Bench(tmp_path, open_door=closed)

    for _ in range(4):
        bench.calls.round()

    assert not bench.calls.reads(TASK)
    assert [of.stay for of in bench.spark.plans] == [None] * 4
    assert len(bench.reported) == 4
    bench.end()


def test_one_worker_that_does_not_reach_the_driver_changes_nothing(bench: Bench) -> None:
    for reaches in (False, True, False, True, False):
        bench.spark.reaches_driver = reaches
        bench.calls.round()
        bench.calls.at_rest(lambda: None)

    assert bench.calls.reads(TASK)


def test_slot_that_ends_closes_its_tasks_and_lets_the_worker_go(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.calls.round()

    bench.end()

    assert bench.slot.works[-1].tasks == ()
    assert bench.spark.under_way == 0
