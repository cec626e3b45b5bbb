from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.streaming import StatefulJob, stream, table
from airflow_provider.streaming.driver.watches import table_wait
from airflow_provider.streaming.driver.watches.source_ends import SourceEnd
from airflow_provider.streaming.driver.watches.table_wait import TableWait, stages_before
from airflow_provider.streaming.language.sink import Sink
from tests.unit.streaming.driver.fakes import compiled
from tests.waiting import wait_until

ORDERS = stream("orders", schema="id STRING, customer STRING")
CUSTOMERS = table("customers", schema="customer STRING, country STRING", key="customer")
STAFF = table("staff", schema="customer STRING, grade STRING", key="customer")
CLICKS = stream("clicks", schema="customer STRING, page STRING", watermark="1 minute")
AGAIN = table("orders", schema="customer STRING, id2 STRING", key="customer")
STREAM = (TaskId(0, 0), TaskId(0, 1))


def waits_of(*sinks: Sink) -> dict[int, list[str]]:
    """By stage, the names of those that it waits for."""
    before = stages_before(compiled(StatefulJob("app", *sinks)))
    return {number: [stage.name for stage in stages] for number, stages in before.items()}


def test_stage_of_the_stream_waits_for_that_of_the_table_and_not_the_other_way_round() -> None:
    assert waits_of(ORDERS.join(CUSTOMERS, on="customer").sink("out")) == {0: ["out-right"]}


def test_table_of_the_streams_own_topic_is_waited_for_as_any() -> None:
    assert waits_of(ORDERS.join(AGAIN, on="customer").sink("out")) == {0: ["out-right"]}


def test_each_of_two_joins_in_a_row_waits_for_its_own_table() -> None:
    twice = ORDERS.join(CUSTOMERS, on="customer", name="first").join(STAFF, on="customer")

    waits = waits_of(twice.sink("out"))

    assert sorted(waits.values()) == [["first-right"], ["out-right"]]
    assert 0 in waits


def test_table_of_two_tables_is_read_in_the_order_of_its_stages() -> None:
    both = CUSTOMERS.join(STAFF, on="customer", name="both")

    (waits,) = waits_of(ORDERS.join(both, on="customer").sink("out")).values()

    assert waits == ["both-left", "both-right", "both", "out-right"]


def test_each_stream_of_a_union_waits() -> None:
    others = stream("others", schema="id STRING, customer STRING")

    waits = waits_of(ORDERS.union(others).join(CUSTOMERS, on="customer").sink("out"))

    assert list(waits.values()) == [["out-right"], ["out-right"]]


def test_neither_two_streams_nor_two_tables_wait() -> None:
    timed = stream("timed", schema="id STRING, customer STRING", watermark="1 minute")

    assert waits_of(timed.join(CLICKS, on="customer", within="1 minute").sink("out")) == {}
    assert waits_of(CUSTOMERS.join(STAFF, on="customer").sink("out")) == {}


@dataclass
class FakeEnds:
    """Of topics whose partitions are all alike."""

    end: int = 0
    first: int = 0
    error: Exception | None = None
    looks: int = 0
    closed: bool = False

    def look(self, offsets: Mapping[int, int | None]) -> Mapping[int, SourceEnd]:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return {number: SourceEnd(self.end, max(offset or 0, self.first), 0) for number, offset in offsets.items()}

    def close(self) -> None:
        self.closed = True


@dataclass
class Waiting:
    """The wait of the stream's two tasks for a table of four, in a thread."""

    ends: dict[str, FakeEnds]
    offsets: dict[TaskId, int] = field(default_factory=dict)
    given_up: bool = False
    answer: bool | None = None

    def __post_init__(self) -> None:
        job = compiled(StatefulJob("app", ORDERS.join(CUSTOMERS, on="customer").sink("out")))
        self.tables = TableWait(stages_before(job), self, self.ends.__getitem__)
        self.table = job.stage(1).tasks
        self.thread = threading.Thread(target=self._wait, daemon=True)

    def offset(self, task: TaskId) -> int | None:
        return self.offsets.get(task)

    def begin(self) -> None:
        self.thread.start()

    def looked(self, times: int) -> None:
        """Returns when the wait has looked at the ends so often more."""
        goal = self.ends["customers"].looks + times
        wait_until(lambda: self.ends["customers"].looks >= goal, 10, "a look")

    def _wait(self) -> None:
        self.answer = self.tables.wait(STREAM, lambda: self.given_up)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    monkeypatch.setattr(table_wait, "_LOOK_S", 0.01)
    monkeypatch.setattr(table_wait, "_CALM_LOOK_S", 0.01)
    monkeypatch.setattr(table_wait, "_POLL_S", 0.001)
    monkeypatch.setattr(table_wait, "_WORTH_S", 0.0)
    waiting = Waiting({"customers": FakeEnds(end=8)})
    yield waiting
    waiting.given_up = True
    if waiting.thread.ident is not None:
        waiting.thread.join(10)


def test_rows_wait_until_every_task_of_the_table_has_committed_what_was_there(waiting: Waiting) -> None:
    waiting.offsets = dict.fromkeys(waiting.table[1:], 8) | {waiting.table[0]: 3}
    waiting.begin()
    waiting.looked(3)

    status = waiting.tables.of(STREAM[0])
    assert status is not None
    assert (status.topic, status.task, status.others, status.offset, status.end) == (
        "customers", waiting.table[0], 0, 3, 8
    )  # fmt: skip
    assert waiting.tables.of(waiting.table[0]) is None
    waiting.offsets[waiting.table[0]] = 8
    waiting.thread.join(10)
    assert waiting.answer is True
    assert waiting.tables.of(STREAM[0]) is None


def test_table_that_grows_all_the_while_is_waited_for_as_far_as_it_was(waiting: Waiting) -> None:
    waiting.begin()
    waiting.looked(2)
    waiting.ends["customers"].end = 1_000_000
    waiting.looked(2)

    waiting.offsets = dict.fromkeys(waiting.table, 9)
    waiting.thread.join(10)

    assert waiting.answer is True


def test_next_micro_batch_waits_for_what_came_since(waiting: Waiting) -> None:
    waiting.offsets = dict.fromkeys(waiting.table, 8)
    assert waiting.tables.wait(STREAM, lambda: False)

    waiting.ends["customers"].end = 9
    waiting.begin()
    waiting.looked(2)

    assert waiting.answer is None


def test_empty_table_and_one_whose_rows_are_all_read_hold_nothing_back(waiting: Waiting) -> None:
    waiting.ends["customers"] = FakeEnds(end=0)
    assert waiting.tables.wait(STREAM, lambda: False)

    # Behind the last record that was read lies the end of a transaction.
    waiting.ends["customers"].end, waiting.ends["customers"].first = 9, 9
    waiting.offsets = dict.fromkeys(waiting.table, 8)
    assert waiting.tables.wait(STREAM, lambda: False)


def test_ends_that_are_not_known_are_waited_for(waiting: Waiting) -> None:
    waiting.offsets = dict.fromkeys(waiting.table, 8)
    waiting.ends["customers"].error = TimeoutError("no broker answered")
    waiting.begin()
    waiting.looked(2)
    status = waiting.tables.of(STREAM[0])
    assert status is not None
    assert status.end is None

    waiting.ends["customers"].error = None
    waiting.thread.join(10)

    assert waiting.answer is True


def test_wait_ends_when_the_query_is_to_end(waiting: Waiting) -> None:
    waiting.begin()
    waiting.looked(2)

    waiting.given_up = True
    waiting.thread.join(10)

    assert waiting.answer is False


def test_tasks_of_other_stages_wait_for_nothing(waiting: Waiting) -> None:
    assert waiting.tables.wait(waiting.table, lambda: False)
    assert waiting.ends["customers"].looks == 0


def test_rows_that_no_task_is_to_process_are_not_let_through(waiting: Waiting) -> None:
    """Whoever takes the tasks over waits, with the rows that it reads."""
    assert not waiting.tables.wait((), lambda: False)


def test_what_was_opened_is_closed(waiting: Waiting) -> None:
    waiting.offsets = dict.fromkeys(waiting.table, 8)
    waiting.tables.wait(STREAM, lambda: False)

    waiting.tables.close()

    assert waiting.ends["customers"].closed
