"""The demo's flights are published whatever the broker's pace is, or the demo is told why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider.demo import publisher as under_test
from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.publisher import Publisher
from airflow_provider.kafka.connection import KafkaConnection
from tests.waiting import wait_until

RECORDS = [(None, b"%d" % number) for number in range(10)]


class FakeProducer:
    """Takes a few records at a time; a poll delivers them."""

    room = 3

    def __init__(self, config: dict[str, Any]) -> None:
        self.queued: list[Callable[[None, Any], None]] = []

    def produce(self, topic: str, value: bytes, key: bytes | None, on_delivery: Callable[[None, Any], None]) -> None:
        if len(self.queued) >= self.room:
            raise BufferError("Local: Queue full")
        self.queued.append(on_delivery)

    def poll(self, timeout: float) -> int:
        delivered, self.queued = self.queued, []
        for each in delivered:
            each(None, None)
        return len(delivered)

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return 0


def test_full_queue_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "Producer", FakeProducer)
    publisher = Publisher(KafkaConnection("nowhere"), "flights", RECORDS, duration_s=0.001)

    publisher.start()

    wait_until(lambda: publisher.done, 30, "all are published")
    assert publisher.published == len(RECORDS)


def test_error_of_the_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("no such topic")

    monkeypatch.setattr(under_test, "Producer", FakeProducer)
    monkeypatch.setattr(FakeProducer, "produce", refuse)
    publisher = Publisher(KafkaConnection("nowhere"), "flights", RECORDS, duration_s=0.001)

    publisher.start()

    with pytest.raises(DemoError, match="no such topic"):
        wait_until(lambda: publisher.done, 30, "the publisher says what it met")
