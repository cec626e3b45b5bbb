"""Which sources workers read, and a stay as its driver sees it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.driver.slots.worker_stay import (
    StayOverError,
    WorkerStay,
    sources_of_workers,
    stay_of,
)
from airflow_provider.streaming.worker.tasks.line import (
    ASK,
    BUSY,
    HANG_UP,
    IDLE,
    LET,
    Door,
    Line,
    LineLostError,
    call_driver,
)
from airflow_provider.streaming.worker.tasks.plan import CallReport, SlotWork
from tests.unit.streaming.driver.fakes import compiled, plan, status_of
from tests.waiting import wait_until


class Worker:
    """What Spark calls: it comes to the line, and does there what a test says."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.todo: queue.Queue[Callable[[Line], CallReport | None]] = queue.Queue()

    def run(self) -> CallReport:
        line = call_driver(self._door.address)
        try:
            while True:
                if (returned := self.todo.get(timeout=30)(line)) is not None:
                    return returned
        finally:
            line.close()


class Heard:
    """What was heard of a stay."""

    def __init__(self) -> None:
        self.reports: list[CallReport] = []
        self.batches = 0
        self.over = threading.Event()
        self.asked: list[int] = []
        self.known: set[int] = set()

    def told(self, report: CallReport) -> None:
        self.reports.append(report)

    def batch_done(self) -> None:
        self.batches += 1

    def wait_for_tables(self, stage: int, given_up: Callable[[], bool]) -> bool:
        self.asked.append(stage)
        wait_until(lambda: given_up() or stage in self.known, 30, "the table, or the end of the stay")
        return stage in self.known

    def stay_over(self) -> None:
        self.over.set()


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door.local()
    yield door
    door.close()


def begun(door: Door, heard: Heard) -> tuple[WorkerStay, Worker]:
    worker = Worker(door)
    stay = WorkerStay(door, worker.run, heard)
    stay.begin()
    return stay, worker


def work(call: int) -> SlotWork:
    return SlotWork(tasks=(plan(0),), budget_s=0.0, call=call)


def answers(call: int) -> Callable[[Line], None]:
    return lambda line: line.send(to_json(CallReport((status_of(0),), call=call)))


def answers_next(line: Line) -> None:
    asked = from_json(line.receive(), SlotWork)
    answers(asked.call)(line)


def returns(line: Line) -> CallReport | None:
    return CallReport(())


def returns_when_hung_up(line: Line) -> CallReport | None:
    assert line.receive() == HANG_UP
    return CallReport(())


def dies(line: Line) -> CallReport | None:
    raise RuntimeError("Python worker exited unexpectedly")


def test_calls_are_answered_over_the_line_and_the_worker_returns_when_it_is_hung_up_on(door: Door) -> None:
    stay, worker = begun(door, heard := Heard())
    worker.todo.put(answers(1))
    assert stay.answer_to(1).statuses == (status_of(0),)

    worker.todo.put(answers_next)
    assert stay.call(work(2)).call == 2
    assert (stay.connected, stay.over) == (True, False)

    worker.todo.put(returns_when_hung_up)
    stay.end()
    assert (stay.over, stay.failed) == (True, False)
    assert heard.over.wait(30)


def test_what_the_worker_says_by_itself_is_handed_on(door: Door) -> None:
    stay, worker = begun(door, heard := Heard())
    worker.todo.put(lambda line: line.send(BUSY))
    wait_until(lambda: stay.busy_since, 30, "the worker to be busy")

    worker.todo.put(lambda line: line.send(IDLE))
    worker.todo.put(lambda line: line.send(to_json(CallReport((status_of(0, source_offset=7),)))))

    wait_until(lambda: heard.reports, 30, "the report")
    assert (heard.batches, stay.busy_since) == (1, None)
    assert heard.reports[0].statuses[0].source_offset == 7


def test_rows_that_wait_are_let_through_stage_by_stage(door: Door) -> None:
    stay, worker = begun(door, heard := Heard())
    heard.known.add(3)
    said: list[bytes] = []

    def asks(line: Line) -> None:
        line.send(ASK + b"12")
        line.send(ASK + b"3")
        said.append(line.receive())
        said.append(line.receive())

    worker.todo.put(asks)
    wait_until(lambda: said, 30, "the first answer")
    heard.known.add(12)
    wait_until(lambda: len(said) == 2, 30, "the second")
    assert (said, sorted(heard.asked)) == ([LET + b"3", LET + b"12"], [3, 12])

    worker.todo.put(lambda line: line.send(ASK + b"4"))
    worker.todo.put(returns_when_hung_up)
    wait_until(lambda: 4 in heard.asked, 30, "the third question")
    stay.end()
    wait_until(lambda: "table-wait" not in {thread.name for thread in threading.enumerate()}, 30, "it to be given up")


def test_worker_that_dies_is_the_error_of_the_call_that_waits(door: Door) -> None:
    stay, worker = begun(door, heard := Heard())
    worker.todo.put(dies)

    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        stay.answer_to(1)
    assert stay.failed
    assert heard.over.wait(30)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        stay.end()


def test_worker_that_returns_in_good_order_before_it_answers_is_called_again(door: Door) -> None:
    stay, worker = begun(door, Heard())
    worker.todo.put(answers(1))
    stay.answer_to(1)
    worker.todo.put(returns)

    with pytest.raises(StayOverError):
        stay.call(work(2))


def test_worker_that_does_not_reach_the_driver_answers_as_one_that_does_not_stay(door: Door) -> None:
    stay = WorkerStay(door, lambda: CallReport((status_of(0),), call=1), Heard())
    stay.begin()

    assert stay.answer_to(1).statuses == (status_of(0),)
    assert not stay.connected


def test_word_that_does_not_get_through_is_no_error_of_its_own(door: Door) -> None:
    """Spark says how the worker ended; that its line is gone says nothing more."""
    stay, worker = begun(door, Heard())
    worker.todo.put(answers(1))
    stay.answer_to(1)

    def hangs_up(line: Line) -> None:
        line.close()

    worker.todo.put(hangs_up)
    worker.todo.put(dies)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        stay.call(work(2))
    with pytest.raises(LineLostError):
        stay._line.send(b"")  # type: ignore[union-attr]  # noqa: SLF001


def test_stay_is_shorter_than_what_spark_takes_for_a_hang(door: Door) -> None:
    assert stay_of(door, 600.0).seconds == 30.0
    assert stay_of(door, 20.0).seconds == 5.0


PLAIN = stream("in", "k STRING, n BIGINT")
INTERNAL = "app-state-repartition"


def sources(of: Any) -> list[str]:
    return [source.topic for source in sources_of_workers(compiled(StatefulJob("app", of)), ()).values()]


def test_workers_read_what_needs_no_rows_of_spark() -> None:
    assert sources(PLAIN.group_by("k").aggregate(F.count(), name="state")) == ["in", INTERNAL]
    plain = PLAIN.filter("n > 1", name="some").group_by("k").aggregate(F.count(), name="state")
    assert sources(plain) == ["in", INTERNAL]
    filtered = PLAIN.filter("sqrt(n) > 1", name="some").group_by("k").aggregate(F.count(), name="state")
    assert sources(filtered) == [], "not the second stage alone, either: Spark's queries would wait for its cores"


def test_topic_that_two_stages_read_is_read_for_both() -> None:
    by_k = PLAIN.group_by("k").aggregate(F.count(), name="state")
    by_n = PLAIN.group_by("n").aggregate(F.count(), name="other")
    job = compiled(StatefulJob("app", by_k.sink("one"), by_n.sink("two")))

    assert [(stage, one.topic) for stage, one in sources_of_workers(job, ()).items()][::2] == [(0, "in"), (2, "in")]


def test_stream_that_waits_for_a_table_is_read_to_wait_and_settings_are_sparks() -> None:
    plain = PLAIN.group_by("k").aggregate(F.count(), name="state")
    job = compiled(StatefulJob("app", plain))

    assert {stage: one.waits for stage, one in sources_of_workers(job, {0}).items()} == {0: True, 1: False}
    tuned = compiled(StatefulJob("app", plain).options(kafka={"kafka.fetch.min.bytes": "10"}))
    assert sources_of_workers(tuned, ()) == {}


def test_bound_and_policy_of_the_job_hold_for_its_workers() -> None:
    plain = PLAIN.group_by("k").aggregate(F.count(), name="state")
    job = StatefulJob("app", plain).options(max_offsets_per_trigger=500).on_data_loss("continue")

    bounds = {
        (source.most_records, source.goes_on_after_loss) for source in sources_of_workers(compiled(job), ()).values()
    }
    assert bounds == {(500, True)}
