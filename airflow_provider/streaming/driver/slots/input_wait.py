"""Waits, beside Spark, until a source holds something new for tasks that have nothing to do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.broker_error import refused_topic
from airflow_provider.kafka.connection import KafkaConnection

log = logging.getLogger(__name__)

_POLL_S: Final = 0.05
_LOOK_EVERY_S: Final = 5.0
_LOOK_TIMEOUT_S: Final = 1.0
_FETCH_WAIT_MS: Final = 100
"""What is assigned waits for the fetch that is under way, so this is shorter than a micro-batch takes."""
_QUEUE_BACKOFF_MS: Final = 20
"""A fetch waits so long while an event lies in the queue, the end of a partition too; a second unless it is set."""


class InputPositions:
    """Decides which records are new, whether the consumer that is to bring them still does, and whether they can come.

    Args:
        offsets: by partition, of the next input record; None for the first there is.
    """

    def __init__(self, offsets: Mapping[int, int | None]) -> None:
        self.next_offsets = dict(offsets)
        """By partition, the offset to read from; None for the first there is; a view."""
        self._reached = {partition: offset or 0 for partition, offset in offsets.items()}
        self._ends: Mapping[int, int] = {}
        self._below: set[int] = set()

    def is_new(self, partition: int, offset: int) -> bool:
        """Whether a record that was read is one that is waited for, and not what was fetched for an earlier wait."""
        return partition in self.next_offsets and offset >= (self.next_offsets[partition] or 0)

    def reached_end(self, partition: int, offset: int) -> None:
        """The consumer stands at a partition's end: there is no record before it."""
        if partition in self._reached:
            self._reached[partition] = max(self._reached[partition], offset)

    def is_stalled(self, ends: Mapping[int, int]) -> bool:
        """Whether the consumer has not come to where a partition's end was when this was asked the last time.

        Args:
            ends: by partition, the offset after what a reader of committed records sees; those that are known.
        """
        before, self._ends = self._ends, dict(ends)
        return any(end > self._reached[partition] for partition, end in before.items() if partition in self._reached)

    def fell_back(self, ends: Mapping[int, int]) -> bool:
        """Whether a partition ends before its next record, in this look and in the one before.

        Its log was cut: what comes until its end is there again would be taken for what was read before.
        """
        before = self._below
        self._below = {number for number, end in ends.items() if end < (self.next_offsets.get(number) or 0)}
        return not before.isdisjoint(self._below)


class InputWait:
    """Tells a thread that some partitions of a source hold a record that can be read.

    Spark's source finds that out by asking the brokers again and again, four requests each time, which makes the JVM
    of an instance without input busy. Here one request waits at the broker until there is a record.

    One thread waits at a time. Close it.

    Args:
        application_id: names the consumer; nothing is committed.
        partitions: those that may be waited for. The way to their brokers is found at once, beside the first
            micro-batch.
    """

    def __init__(
        self, connection: KafkaConnection, topic: str, application_id: str, partitions: Collection[int]
    ) -> None:
        self._topic = topic
        self._config: dict[str, Any] = dict(connection.to_client_config()) | {
            "group.id": f"{application_id}-input",
            "client.id": f"{application_id}-input",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            # It is to know of one record, not to have them.
            "queued.min.messages": 1,
            "fetch.message.max.bytes": 1,
            "fetch.wait.max.ms": _FETCH_WAIT_MS,
            "fetch.queue.backoff.ms": _QUEUE_BACKOFF_MS,
            "reconnect.backoff.max.ms": 1000,
        }
        self._lock = threading.Lock()
        self._consumer = Consumer(self._config)
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in partitions])

    def wait(self, offsets: Mapping[int, int | None], given_up: Callable[[], bool]) -> None:
        """Return once a partition holds a record from its offset on, or the wait is given up, or cannot go on.

        It cannot where a log ends before the offset, in two looks one after the other. A record that is deleted, or
        that no reader sees, is none. A consumer to which nothing comes any more although the log grows is found and
        replaced.

        Args:
            offsets: by partition, of the next input record; None for the first there is.
            given_up: asked some twenty times a second.
        """
        with self._lock:
            self._wait(InputPositions(offsets), given_up)

    def _wait(self, positions: InputPositions, given_up: Callable[[], bool]) -> None:
        try:
            self._assign(positions)
            looked_at = time.monotonic()
            while not given_up():
                if self._arrived(positions):
                    return
                if time.monotonic() - looked_at > _LOOK_EVERY_S:
                    ends = self._ends(positions)
                    if positions.fell_back(ends):
                        # Spark's own source finds that too, and ends the query; the next one is told what is lost.
                        log.warning("%s ends before what was read of it: %s", self._topic, dict(ends))
                        return
                    if positions.is_stalled(ends):
                        log.warning("nothing comes from %s although it grows: its consumer is replaced", self._topic)
                        stalled, self._consumer = self._consumer, Consumer(self._config)
                        stalled.close()
                        self._assign(positions)
                    looked_at = time.monotonic()
        except (KafkaException, ConfigurationError) as error:
            # Spark's own source meets the same, and has the words for it.
            log.warning("%s cannot be waited for, so Spark polls it until its next record: %s", self._topic, error)
        finally:
            self._consumer.unassign()  # else it would read on while Spark does

    def close(self) -> None:
        """Leave the cluster, once no wait is under way; from any thread."""
        with self._lock:
            self._consumer.close()

    def _assign(self, positions: InputPositions) -> None:
        self._consumer.assign(
            [
                TopicPartition(self._topic, partition, OFFSET_BEGINNING if offset is None else offset)
                for partition, offset in positions.next_offsets.items()
            ]
        )

    def _arrived(self, positions: InputPositions) -> bool:
        message = self._consumer.poll(_POLL_S)
        if message is None:
            return False
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is None:
            return partition is not None and offset is not None and positions.is_new(partition, offset)
        if error.code() == KafkaError._PARTITION_EOF:
            if partition is not None and offset is not None:
                positions.reached_end(partition, offset)
        elif error.fatal() or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            # Anything else passes: brokers come back, a topic that is gone is found by the watch over topics, and no
            # group is used.
            raise KafkaException(error)
        return False

    def _ends(self, positions: InputPositions) -> Mapping[int, int]:
        """By partition, where a reader of committed records stops now; without those that are not known.

        Raises:
            ConfigurationError: the source may not be read. The client says so once, not to a wait that begins later.
        """
        asked = [TopicPartition(self._topic, partition, OFFSET_END) for partition in positions.next_offsets]
        try:
            ends = self._consumer.offsets_for_times(asked, timeout=_LOOK_TIMEOUT_S)
        except KafkaException:
            self._check_right()
            return {}  # brokers that do not answer stall no consumer
        return {end.partition: end.offset for end in ends if end.error is None and end.offset >= 0}

    def _check_right(self) -> None:
        what = f"Reading {self._topic}"
        if (refused := refused_topic(self._consumer, self._topic, what, _LOOK_TIMEOUT_S)) is not None:
            raise refused
