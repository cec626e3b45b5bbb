from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Producer

from airflow_provider.changelog.producer_queue import Change, ProducerQueue
from airflow_provider.errors import BrokerUnreachableError


class SmallQueue:
    """Holds two records, which leave it with a poll where the brokers answer."""

    def __init__(self, brokers_answer: bool) -> None:
        self.brokers_answer = brokers_answer
        self.held: list[Any] = []
        self.sent: list[Any] = []

    def poll(self, _: float) -> int:
        if self.brokers_answer:
            self.sent += self.held
            self.held.clear()
        return 0

    def produce(self, _: str, value: bytes, key: bytes) -> None:
        if len(self.held) == 2:
            raise BufferError("Local: Queue full")
        self.held.append((key, value))

    def produce_batch(self, _: str, messages: Sequence[dict[str, Any]], __: int) -> int:
        room = 2 - len(self.held)
        self.held += [(message["key"], message["value"]) for message in messages[:room]]
        for message in messages[room:]:
            message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
        return min(room, len(messages))


RECORDS: list[Change] = [(b"%d" % number, b"v") for number in range(5)]


def put_all(queue: ProducerQueue) -> None:
    queue.put("t", RECORDS, 0)


def put_each(queue: ProducerQueue) -> None:
    for key, value in RECORDS:
        queue.put_one("t", value, key)


@pytest.mark.parametrize("put", [put_all, put_each])
def test_full_queue_is_waited_for_and_keeps_the_order(put: Any) -> None:
    producer = SmallQueue(brokers_answer=True)

    put(ProducerQueue(cast(Producer, producer), 10.0))

    assert producer.sent + producer.held == RECORDS


@pytest.mark.parametrize("put", [put_all, put_each])
def test_queue_that_stays_full_is_an_error_after_its_time(put: Any) -> None:
    producer = SmallQueue(brokers_answer=False)

    with pytest.raises(BrokerUnreachableError, match="did not fit into the producer's queue for 0 s"):
        put(ProducerQueue(cast(Producer, producer), 0.0))
