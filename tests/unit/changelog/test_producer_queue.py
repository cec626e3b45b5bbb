from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import Producer

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

    def produce(self, _: str, value: bytes, key: bytes, __: int = -1) -> None:
        if len(self.held) == 2:
            raise BufferError("Local: Queue full")
        self.held.append((key, value))


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


def test_error_of_a_full_queue_says_how_many_records_are_left() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"^3 records for t did not fit"):
        put_all(ProducerQueue(cast(Producer, SmallQueue(brokers_answer=False)), 0.0))
