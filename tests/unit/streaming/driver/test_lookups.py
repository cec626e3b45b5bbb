"""An instance's side of lookups: what it has looked up, what it refuses, what a burst of questions comes to."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.lookup import Answer, CopyAnswer, KeptState, Question
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicMissingError
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.driver import lookups
from airflow_provider.streaming.driver.lookups import LookupService, key_lookup
from airflow_provider.streaming.driver.slots.waiting_lookups import WaitingLookups
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.plan import KeyLookup, LookedUp
from airflow_provider.testing import JobTester
from tests.waiting import wait_until

HAS: Final = CopyAnswer(
    task=TaskId(0, 0), role=Role.ACTIVE, state=TaskState.RUNNING, states=(KeptState(name="ann", value="1"),)
)
HAS_NOT: Final = CopyAnswer(task=TaskId(0, 1), role=Role.ACTIVE, state=TaskState.RUNNING)


@pytest.fixture(scope="module")
def stages() -> dict[int, StageSpec]:
    orders = stream("orders", schema="customer STRING, product STRING", key="customer")
    counts = orders.group_by("customer").aggregate(F.count().alias("n"), name="one")
    pairs = orders.group_by("customer", "product").aggregate(F.count().alias("n"), name="two")
    with JobTester(StatefulJob("app", counts.sink("counts"), pairs.sink("pairs"))) as tester:
        return dict(tester._job.specs)  # noqa: SLF001 - as an instance has them


def asked(store: str, *key: str) -> Question:
    return Question(id="q", store=store, key=key)


def test_key_is_looked_for_as_it_was_made_of_rows(stages: dict[int, StageSpec]) -> None:
    assert key_lookup(asked("one", "ann"), stages).group == b"ann"
    assert key_lookup(asked("two", "ann", 'te"a\x0b'), stages).group == b'["ann","te\\"a\\u000B"]'


def test_key_of_several_columns_by_which_rows_are_compared_is_that_of_a_group() -> None:
    orders = stream("orders", "a STRING, b BIGINT, at BIGINT", event_time="at", watermark="1 hour")
    job = StatefulJob("app", orders.drop_duplicates("a", "b", within="1 hour").sink("out"))
    with JobTester(job) as tester:
        stages = dict(tester._job.specs)  # noqa: SLF001 - as an instance has them
    (store,) = (spec.store.name for spec in stages.values() if spec.keeps_state)

    assert key_lookup(asked(store, "x", "7"), stages).group == b'["x","7"]'


def test_store_that_there_is_not_is_refused(stages: dict[int, StageSpec]) -> None:
    with pytest.raises(ConfigurationError, match="has no store 'three', but 'one', 'two'"):
        key_lookup(asked("three", "ann"), stages)


@pytest.mark.parametrize(("store", "key"), [("one", ("ann", "tea")), ("two", ("ann",))])
def test_key_of_another_number_of_columns_is_refused(
    store: str, key: tuple[str, ...], stages: dict[int, StageSpec]
) -> None:
    with pytest.raises(ConfigurationError, match=r"is kept by customer.* and the key has \d value"):
        key_lookup(asked(store, *key), stages)


class FakeChannel:
    """Brings what a test puts in, and keeps what is sent."""

    stalled = False

    def __init__(self) -> None:
        self.coming = queue.SimpleQueue[Question | Answer | Exception]()
        self.sent: list[Question | Answer] = []
        self.closed = 0

    def send(self, record: Question | Answer) -> None:
        self.sent.append(record)

    def receive(self, timeout_s: float) -> Question | Answer | None:
        try:
            found = self.coming.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self.closed += 1


class FakeSlot:
    """Keeps what it is asked for, as long as there is room."""

    def __init__(self, room: int = 100) -> None:
        self.lookups: list[KeyLookup] = []
        self._room = room

    def look_up(self, lookup: KeyLookup) -> bool:
        if len(self.lookups) < self._room:
            self.lookups.append(lookup)
            return True
        return False


@contextmanager
def served(stages: dict[int, StageSpec], *slots: FakeSlot) -> Iterator[tuple[FakeChannel, LookupService]]:
    channel = FakeChannel()
    service = LookupService("i1", stages, slots, lambda: channel)
    service.start()
    yield channel, service
    service.stop()
    wait_until(lambda: channel.closed > 0, 30, "the channel to be closed")


def test_each_slot_looks_and_each_copy_that_has_something_is_a_record(stages: dict[int, StageSpec]) -> None:
    slots = FakeSlot(), FakeSlot()
    with served(stages, *slots) as (channel, service):
        channel.coming.put(asked("one", "ann"))
        wait_until(lambda: all(slot.lookups for slot in slots), 30, "both slots to be asked")
        service.answered([LookedUp("q", (HAS, HAS_NOT, HAS))])
        wait_until(lambda: len(channel.sent) == 3, 30, "the answers")

    assert channel.sent == [Answer(question="q", instance="i1", copies=of) for of in ((HAS,), (HAS,), (HAS_NOT,))]


def test_what_others_answer_is_none_of_its_business(stages: dict[int, StageSpec]) -> None:
    slot = FakeSlot()
    with served(stages, slot) as (channel, _):
        channel.coming.put(Answer(question="q", instance="i2", copies=(HAS,)))
        channel.coming.put(asked("one", "ann"))
        wait_until(lambda: bool(slot.lookups), 30, "the question behind it")

    assert channel.sent == []


def test_burst_is_refused_beyond_what_waits(stages: dict[int, StageSpec]) -> None:
    with served(stages, FakeSlot(room=2)) as (channel, _):
        for _ in range(5):
            channel.coming.put(asked("one", "ann"))
        wait_until(lambda: len(channel.sent) == 3, 30, "three to be refused")

    assert {answer.problem for answer in channel.sent if isinstance(answer, Answer)} == {
        "it is asked for more than it looks up beside its work: ask again later"
    }


def test_question_that_cannot_be_answered_is_refused(stages: dict[int, StageSpec]) -> None:
    with served(stages, FakeSlot()) as (channel, _):
        channel.coming.put(asked("three", "ann"))
        wait_until(lambda: bool(channel.sent), 30, "the refusal")

    (answer,) = channel.sent
    assert isinstance(answer, Answer)
    assert "no store 'three'" in (answer.refusal or "")


@pytest.mark.parametrize(
    "error",
    [BrokerUnreachableError("away"), TopicMissingError("gone"), ValueError("odd")],
    ids=["away", "gone", "unforeseen"],
)
def test_topic_that_cannot_be_read_is_tried_again_and_logged_once(
    error: Exception, stages: dict[int, StageSpec], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lookups, "_PAUSE_S", 0.01)
    monkeypatch.setattr(lookups, "_TRY_AGAIN_S", 0.01)
    slot, channel, opened = FakeSlot(), FakeChannel(), list[int]()

    def connect() -> FakeChannel:
        opened.append(1)
        if len(opened) < 4:
            raise error
        return channel

    service = LookupService("i1", stages, [slot], connect)
    service.start()
    channel.coming.put(asked("one", "ann"))
    wait_until(lambda: bool(slot.lookups), 30, "the question")
    service.stop()

    assert [record.message for record in caplog.records] == [
        f"keys cannot be looked up for now: {type(error).__name__}: {error}"
    ]


def lookup(number: int) -> KeyLookup:
    return KeyLookup(question=str(number), stage=0, group=b"ann")


def test_what_would_wait_for_long_is_refused_and_some_go_with_each_call() -> None:
    waiting = WaitingLookups()
    taken = [waiting.put(lookup(number)) for number in range(100)]

    assert taken == [True] * 32 + [False] * 68
    assert [one.question for one in waiting.take()] == list("01234567")


def test_calls_for_lookups_alone_take_a_tenth_of_the_time_at_the_most() -> None:
    waiting = WaitingLookups()
    waiting.put(lookup(1))
    assert waiting.due(100.0)

    waiting.take()
    waiting.called(100.0, 100.2)
    waiting.put(lookup(2))

    assert not waiting.due(101.9)
    assert waiting.due(102.1)


def test_call_without_lookups_puts_none_off() -> None:
    waiting = WaitingLookups()
    waiting.take()
    waiting.called(100.0, 101.0)
    waiting.put(lookup(1))

    assert waiting.due(101.0)
