"""A worker that stays: what it says to its driver, and when it returns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskStatus
from airflow_provider.streaming.worker import stay as stays
from airflow_provider.streaming.worker.calls import answer_of
from airflow_provider.streaming.worker.stay import StayingWorker
from airflow_provider.streaming.worker.tasks.line import ASK, BUSY, HANG_UP, IDLE, LET, LineAddress, LineLostError
from airflow_provider.streaming.worker.tasks.lost_input import LostInput, LostRecords
from airflow_provider.streaming.worker.tasks.plan import CallReport, SlotPlan, SlotWork, Stay
from tests.unit.streaming.driver.fakes import compiled, plan, settings_in, status_of

TASK = TaskId(0, 0)


class Clock:
    """Monotonic time that only waits move."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stays, "time", clock)
    return clock


class SlotOfOne:
    """A slot whose source brings some micro-batches, each after a time."""

    def __init__(self, clock: Clock, batches: tuple[float, ...] = ()) -> None:
        self._clock, self._batches = clock, deque(batches)
        self.lost = LostRecords()
        self.ready: list[int] = []
        self.held: list[int] = []
        self.let: list[int] = []
        self.called: list[SlotWork] = []
        self.clocks: list[int | None] = []
        self.offset = 0
        self.error: Exception | None = None

    @property
    def comes_at(self) -> float:
        return self._batches[0] if self._batches else float("inf")

    def call(self, work: SlotWork, rows: tuple[()], attempts_left: bool) -> tuple[TaskStatus, ...]:
        self.called.append(work)
        return self.report(work)

    def let_through(self, stage: int) -> None:
        self.held.remove(stage)
        self.let.append(stage)

    def read_sources(self, work: SlotWork, clock_ms: int | None, on_rows: Callable[[], None]) -> bool:
        if not self._batches or self._batches[0] > self._clock.now:
            return False
        self._batches.popleft()
        on_rows()
        if self.error is not None:
            raise self.error
        self.clocks.append(clock_ms)
        self.offset += 10
        return bool(self._batches) and self._batches[0] <= self._clock.now

    def report(self, work: SlotWork) -> tuple[TaskStatus, ...]:
        return (status_of(0, source_offset=self.offset),)


class Driver:
    """The other end of a line: it says words at their times."""

    def __init__(self, clock: Clock, *words: tuple[float, bytes], slot: SlotOfOne | None = None) -> None:
        self._clock, self._words, self._slot = clock, deque(words), slot
        self.heard: list[bytes] = []
        self.waits: list[float] = []
        self.closed = False

    def send(self, word: bytes) -> None:
        self.heard.append(word)

    def wait(self, seconds: float, also: Collection[int] = ()) -> bool:
        self.waits.append(seconds)
        due = self._words[0][0] if self._words else float("inf")
        comes = float("inf") if self._slot is None else self._slot.comes_at
        self._clock.now = max(self._clock.now, min(self._clock.now + seconds, due, comes))
        return due <= self._clock.now

    def receive(self) -> bytes:
        word = self._words.popleft()[1]
        if not word:
            raise LineLostError
        return word

    def close(self) -> None:
        self.closed = True

    @property
    def reports(self) -> list[CallReport]:
        return [from_json(word, CallReport) for word in self.heard if word[:1] == b"{"]


def work(call: int, **more: Any) -> SlotWork:
    return SlotWork(tasks=(plan(0),), budget_s=0.0, call=call, **more)


@pytest.fixture
def slot_plan(tmp_path: Path) -> SlotPlan:
    return SlotPlan(
        settings=settings_in(tmp_path),
        stages=compiled().specs,
        slot=0,
        stay=Stay(line=LineAddress("nowhere", 1, ""), seconds=30.0),
        **vars(work(1)),
    )


def stay(slot: SlotOfOne, driver: Driver, slot_plan: SlotPlan, seconds: float = 30.0) -> None:
    StayingWorker(cast(Any, slot), driver).stay(slot_plan, seconds)


def test_calls_are_answered_by_their_numbers_until_the_driver_hangs_up(clock: Clock, slot_plan: SlotPlan) -> None:
    slot, driver = SlotOfOne(clock), Driver(clock, (101.0, to_json(work(2))), (102.0, HANG_UP))

    stay(slot, driver, slot_plan)

    assert [report.call for report in driver.reports] == [1, 2]
    assert slot.called[1] == work(2)
    assert clock.now == 102.0


def test_it_returns_by_itself_when_its_time_is_over(clock: Clock, slot_plan: SlotPlan) -> None:
    stay(SlotOfOne(clock), Driver(clock), slot_plan, 12.0)

    assert clock.now == 112.0


def test_what_comes_is_processed_at_once_and_told_five_times_a_second(clock: Clock, slot_plan: SlotPlan) -> None:
    """The driver knows at once that it is busy, and that it is not any more; how far it got, a moment later."""
    slot = SlotOfOne(clock, (100.0, 100.0, 100.05, 103.0))
    driver = Driver(clock, (104.0, HANG_UP), slot=slot)

    stay(slot, driver, slot_plan)

    assert driver.heard.count(BUSY) == driver.heard.count(IDLE) == 4
    assert [(report.call, report.statuses[0].source_offset) for report in driver.reports] == [
        (1, 0), (None, 30), (None, 40)
    ]  # fmt: skip
    assert driver.heard[1:5] == [BUSY, IDLE, BUSY, IDLE], "the second lay ready: nothing was waited for"


def test_last_that_was_processed_is_told_before_it_returns(clock: Clock, slot_plan: SlotPlan) -> None:
    slot = SlotOfOne(clock, (101.0,))
    driver = Driver(clock, (101.1, HANG_UP), slot=slot)

    stay(slot, driver, slot_plan)

    assert driver.reports[-1].statuses[0].source_offset == 10


def test_driver_is_asked_once_for_what_waits_for_a_table(clock: Clock, slot_plan: SlotPlan) -> None:
    slot = SlotOfOne(clock, (101.0, 103.0))
    slot.held = [3, 12]
    driver = Driver(clock, (102.0, LET + b"12"), (104.0, HANG_UP), slot=slot)

    stay(slot, driver, slot_plan)
    assert [word for word in driver.heard if word.startswith(ASK)] == [ASK + b"3", ASK + b"12"]
    assert (slot.let, slot.held) == ([12], [3])

    stay(slot, again := Driver(clock, (105.0, HANG_UP)), slot_plan)
    assert ASK + b"3" in again.heard, "who was asked may have waited for the stay that is over"


def test_time_of_the_drivers_call_goes_on(clock: Clock, slot_plan: SlotPlan) -> None:
    slot = SlotOfOne(clock, (103.0, 107.0))
    told = (to_json(work(2, clock_ms=50_000)), to_json(work(3, clock_ms=None)))
    driver = Driver(clock, (101.0, told[0]), (105.0, told[1]), (108.0, HANG_UP), slot=slot)

    stay(slot, driver, slot_plan)

    assert slot.clocks == [52_000, None]


def test_consumer_is_looked_at_although_nothing_comes(clock: Clock, slot_plan: SlotPlan) -> None:
    driver = Driver(clock, (120.0, HANG_UP))

    stay(SlotOfOne(clock), driver, slot_plan)

    assert max(driver.waits) <= 5.0


def test_what_was_gone_on_without_is_said_with_each_report(clock: Clock, slot_plan: SlotPlan) -> None:
    slot, driver = SlotOfOne(clock), Driver(clock, (101.0, HANG_UP))
    slot.lost.count(TASK, LostInput(3, 8))

    stay(slot, driver, slot_plan)

    assert driver.reports[0].lost == ((TASK, LostInput(3, 8)),)


def test_error_of_a_batch_ends_the_stay(clock: Clock, slot_plan: SlotPlan) -> None:
    slot = SlotOfOne(clock, (101.0,))
    slot.error = OSError("no room")

    with pytest.raises(OSError, match="no room"):
        stay(slot, Driver(clock, slot=slot), slot_plan)


def test_driver_that_is_gone_ends_it_in_good_order(clock: Clock, slot_plan: SlotPlan) -> None:
    driver = Driver(clock, (101.0, b""))

    report = answer_of(cast(Any, SlotOfOne(clock)), slot_plan, (), False, lambda _: driver)

    assert report == CallReport(())
    assert driver.closed


def test_nothing_of_the_call_is_left_unread_so_that_the_worker_is_kept(clock: Clock, slot_plan: SlotPlan) -> None:
    rows = iter([pa.RecordBatch.from_pydict({"round": [1]})])

    answer_of(cast(Any, SlotOfOne(clock)), slot_plan, rows, False, lambda _: Driver(clock, (101.0, b"")))

    assert next(rows, None) is None, "Spark ends a worker that does not read to the end"


def test_worker_that_does_not_reach_its_driver_does_what_it_was_called_for(clock: Clock, slot_plan: SlotPlan) -> None:
    def refuse(_: LineAddress) -> Driver:
        raise ConnectionRefusedError

    slot = SlotOfOne(clock)
    report = answer_of(cast(Any, slot), slot_plan, (), False, refuse)

    assert (report.call, report.statuses) == (1, (status_of(0, source_offset=0),))
    assert slot.called == [slot_plan]
