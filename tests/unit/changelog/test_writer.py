from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer

from airflow_provider.changelog import writer
from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import BrokerUnreachableError

RECORD = CommitRecord("app", 0, 1, "i1", 1, 0, {"orders": 7})


class HangingProducer:
    """Never comes back from sending the offsets, whatever timeout it is given; nothing may be asked of it after."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.never = threading.Event()
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def produce_batch(self, _: str, messages: Sequence[Any], __: int) -> int:
        return len(messages)

    def produce(self, *_: Any, **__: Any) -> None:
        self.calls.append("record")

    def poll(self, _: float) -> int:
        return 0

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.calls.append("offsets")
        self.never.wait()

    def commit_transaction(self, _: float) -> None:
        self.calls.append("commit")

    def abort_transaction(self, _: float) -> None:
        self.calls.append("abort")


def test_coordinator_that_never_answers_ends_the_commit_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    producers: list[HangingProducer] = []

    def made(config: dict[str, Any]) -> HangingProducer:
        producers.append(HangingProducer(config))
        return producers[-1]

    monkeypatch.setattr(writer, "Producer", made)
    monkeypatch.setattr(writer, "_GRACE_S", 0.0)
    group = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "app"})
    owner = TransactionalWriter(KafkaConnection("127.0.0.1:1"), "app-0", timeout_s=0.1)

    with pytest.raises(BrokerUnreachableError, match="did not take its offsets"):
        owner.commit("app-state-changelog", 0, [(b"k", b"v")], {}, RECORD, group)

    assert producers[0].calls == ["begin", "record", "offsets"]
    producers[0].never.set()
    group.close()
