"""A producer's local queue, which takes what the brokers have not taken yet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import length_hint
from typing import Any, Final

from confluent_kafka import Producer

from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.common.clock import now_ms
from airflow_provider.errors import BrokerUnreachableError

Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes."""

CHUNK: Final = 50_000
"""How many records are queued at once."""


class ProducerQueue:
    """Waits for room where it is full."""

    def __init__(self, producer: Producer, timeout_s: float) -> None:
        self._producer = producer
        self._timeout_s = timeout_s

    def put(self, topic: str, records: Sequence[Change], partition: int | None) -> None:
        """Queue records, in order.

        Args:
            partition: where they go in it; None leaves that to the partitioner.

        Raises:
            KafkaException: the client refuses one.
            BrokerUnreachableError: there was no room in time.
        """
        # -1 leaves the choice to the partitioner.
        produce, to = self._producer.produce, -1 if partition is None else partition
        for start in range(0, len(records), CHUNK):
            deadline = time.monotonic() + self._timeout_s
            left = iter(records[start : start + CHUNK])
            # One by one: `produce_batch` wants a dictionary of each record, and costs half as much again.
            for key, value in left:
                try:
                    produce(topic, value, key, to)
                except BufferError:
                    self._put_within(deadline, length_hint(left) + 1, topic, value, key, to)
            self._producer.poll(0)

    def put_one(self, topic: str, value: bytes | None, key: bytes | None, **more: Any) -> None:
        """Queue one record; `more` are the other arguments of `Producer.produce`.

        Raises:
            KafkaException: the client refuses it.
            BrokerUnreachableError: there was no room in time.
        """
        self._put_within(time.monotonic() + self._timeout_s, 1, topic, value, key, **more)

    def put_letters(self, topic: str, letters: Sequence[DeadLetter]) -> None:
        """Queue dead letters.

        Raises:
            KafkaException: the client refuses one.
            BrokerUnreachableError: there was no room in time.
        """
        # One by one: a batch carries no headers.
        for letter in letters:
            when = letter.written_timestamp_ms(now_ms())
            self.put_one(topic, letter.value, letter.key, timestamp=when, headers=letter.headers())
            self._producer.poll(0)

    def _put_within(self, deadline: float, records: int, topic: str, *rest: Any, **more: Any) -> None:
        """Queue a record once there is room for it; `records` is how many there are with those behind it."""
        while True:
            try:
                self._producer.produce(topic, *rest, **more)
            except BufferError:
                self._make_room(topic, records, deadline)
            else:
                return

    def _make_room(self, topic: str, records: int, deadline: float) -> None:
        """The queue is full: send some of it."""
        if time.monotonic() > deadline:
            raise BrokerUnreachableError(
                f"{records} records for {topic} did not fit into the producer's queue for "
                f"{self._timeout_s:g} s: the brokers are too slow or do not answer."
            )
        self._producer.poll(0.05)
