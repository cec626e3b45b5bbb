from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from airflow_provider.changelog import writer
from airflow_provider.changelog.commit_record import COMMIT_KEY, SourcePosition
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicMismatchError
from airflow_provider.kafka import transactional_producer
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import commits_topic
from tests.builders import commit_of

RECORD = commit_of(sources={"orders": SourcePosition(7)})


class HangingProducer:
    """Never comes back from sending the offsets, whatever timeout it is given; nothing may be asked of it after."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.never = threading.Event()
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def produce(self, *_: Any, **__: Any) -> None:
        self.calls.append("record")

    def poll(self, _: float) -> int:
        return 0

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.calls.append("offsets")
        self.never.wait()

    def flush(self, _: float) -> int:
        return 0

    def commit_transaction(self, _: float) -> None:
        self.calls.append("commit")

    def abort_transaction(self, _: float) -> None:
        self.calls.append("abort")


def test_coordinator_that_never_answers_ends_the_commit_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    producers: list[HangingProducer] = []

    def made(config: dict[str, Any]) -> HangingProducer:
        producers.append(HangingProducer(config))
        return producers[-1]

    monkeypatch.setattr(transactional_producer, "Producer", made)
    monkeypatch.setattr(writer, "_GRACE_S", 0.0)
    group = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "app"})
    owner = TransactionalWriter(KafkaConnection("127.0.0.1:1"), "app-0", "sink", timeout_s=0.1)

    with pytest.raises(BrokerUnreachableError, match="did not take its offsets"):
        owner.commit({"app-state-changelog": [(b"k", b"v")]}, {}, RECORD, group)

    assert producers[0].calls == ["begin", "record", "record", "offsets"]
    producers[0].never.set()
    group.close()


class MemoryProducer(HangingProducer):
    """Keeps by topic and partition what is produced, from offset 100 on."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.topics: dict[tuple[str, int], list[tuple[bytes, bytes | None]]] = {}
        self.offsets: list[tuple[str, int, int]] = []
        self._delivered: list[Callable[[], None]] = []

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: Any = None) -> None:
        log = self.topics.setdefault((topic, partition), [])
        log.append((key, value))
        if on_delivery is None:
            return
        offset = 99 + len(log)
        stored = SimpleNamespace(topic=lambda: topic, offset=lambda: offset)
        self._delivered.append(lambda: on_delivery(None, stored))

    def send_offsets_to_transaction(self, offsets: Any, *_: Any) -> None:
        self.offsets = [(at.topic, at.partition, at.offset) for at in offsets]

    def flush(self, _: float) -> int:
        for delivered in self._delivered:
            delivered()
        self._delivered = []
        return 0

    def __len__(self) -> int:
        return 0


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> MemoryProducer:
    producer = MemoryProducer({})
    monkeypatch.setattr(transactional_producer, "Producer", lambda _: producer)
    return producer


@pytest.fixture
def owner(producer: MemoryProducer) -> TransactionalWriter:
    return TransactionalWriter(KafkaConnection("127.0.0.1:1"), "app-3", "sink")


GROUP = cast(Consumer, SimpleNamespace(consumer_group_metadata=lambda: None))
TWO_SOURCES = dataclasses.replace(
    RECORD, task=TaskId(1, 3), sources={"orders": SourcePosition(7), "rates": SourcePosition(9, "topic-id")}
)


def test_commit_record_is_the_last_in_each_changelog(owner: TransactionalWriter, producer: MemoryProducer) -> None:
    changes: dict[str, list[Change]] = {"app-totals-changelog": [(b"a", b"1"), (b"b", None)], "app-seen-changelog": []}

    positions = owner.commit(changes, {}, TWO_SOURCES, GROUP)

    record = (COMMIT_KEY, TWO_SOURCES.to_bytes())
    assert producer.topics == {
        ("app-totals-changelog", 3): [(b"a", b"1"), (b"b", None), record],
        ("app-seen-changelog", 3): [record],
    }
    assert positions == {"app-totals-changelog": 103, "app-seen-changelog": 101}


def test_group_gets_the_offsets_of_every_source(owner: TransactionalWriter, producer: MemoryProducer) -> None:
    owner.commit({"app-state-changelog": []}, {}, TWO_SOURCES, GROUP)

    assert producer.offsets == [("orders", 3, 7), ("rates", 3, 9)]


def test_task_without_a_store_commits_to_its_stages_topic(owner: TransactionalWriter, producer: MemoryProducer) -> None:
    positions = owner.commit({commits_topic("app", 1): []}, {"sink": [(b"k", b"v")]}, TWO_SOURCES, GROUP)

    assert positions == {"app-1-commits": 101}
    assert producer.topics == {
        ("sink", -1): [(b"k", b"v")],
        ("app-1-commits", 3): [(COMMIT_KEY, TWO_SOURCES.to_bytes())],
    }


def test_commit_that_its_owner_refuses_by_where_it_lies_is_aborted(
    owner: TransactionalWriter, producer: MemoryProducer
) -> None:
    seen: list[Mapping[str, int]] = []

    def refuse(positions: Mapping[str, int]) -> None:
        seen.append(positions)
        raise TopicMismatchError("the changelog ends elsewhere")

    with pytest.raises(TopicMismatchError, match="ends elsewhere"):
        owner.commit({"app-state-changelog": [(b"a", b"1")]}, {}, RECORD, GROUP, check=refuse)

    assert seen == [{"app-state-changelog": 102}]
    assert producer.calls == ["begin", "abort"]


def test_commit_without_a_place_for_its_record_is_refused(owner: TransactionalWriter, producer: MemoryProducer) -> None:
    with pytest.raises(ValueError, match="commit topic"):
        owner.commit({}, {"sink": [(b"k", b"v")]}, RECORD, GROUP)

    assert (producer.calls, producer.topics) == ([], {})


class FullQueue(MemoryProducer):
    """Its queue takes one more record after each poll."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.room = 0

    def poll(self, _: float) -> int:
        self.room = 1
        return 0

    def produce(self, *args: Any, **more: Any) -> None:
        if not self.room:
            raise BufferError("Local: Queue full")
        self.room = 0
        if "headers" in more:
            self.topics.setdefault((args[0], -1), []).append((args[2], args[1]))
        else:
            super().produce(*args, **more)


def letter(offset: int) -> DeadLetter:
    return DeadLetter(
        key=b"k",
        value=b"v",
        topic="orders",
        partition=3,
        offset=offset,
        timestamp_ms=1,
        task=TaskId(0, 3),
        error="E",
        message="m",
    )


def test_full_local_queue_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = FullQueue({})
    monkeypatch.setattr(transactional_producer, "Producer", lambda _: producer)
    owner = TransactionalWriter(KafkaConnection("127.0.0.1:1"), "app-3", "sink")

    letters = {"letters": [letter(1), letter(2), letter(3)]}
    positions = owner.commit({"app-state-changelog": []}, {}, TWO_SOURCES, GROUP, letters)

    assert len(producer.topics["letters", -1]) == 3
    assert positions == {"app-state-changelog": 101}


def test_record_that_the_client_refuses_is_not_taken_for_slow_brokers(
    producer: MemoryProducer, owner: TransactionalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str, __: bytes, key: bytes, ___: int) -> None:
        if key == b"b":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    monkeypatch.setattr(producer, "produce", refuse)

    with pytest.raises(ConfigurationError, match=r"MSG_SIZE_TOO_LARGE.*max\.message\.bytes"):
        owner.commit({"app-state-changelog": [(b"a", b"1"), (b"b", b"2")]}, {}, TWO_SOURCES, GROUP)


def test_producer_takes_what_the_topics_take(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[dict[str, Any]] = []
    monkeypatch.setattr(transactional_producer, "Producer", lambda config: configs.append(config))

    for limits in (None, {"sink": 10_000_000, "letters": 50_000}):
        TransactionalWriter(KafkaConnection("127.0.0.1:1"), "app-3", "sink", max_message_bytes=limits)

    assert [(c["message.max.bytes"], c["batch.size"]) for c in configs] == [(1_048_588, 1 << 20), (10_000_000, 50_000)]
