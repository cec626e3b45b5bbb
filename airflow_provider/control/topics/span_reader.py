"""Reads the committed records between offsets of a topic: an ordinary consumer that shares no code with the writers."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.control.topics.cursor import UNKNOWN_TOPIC, consumer_config
from airflow_provider.errors import StatefulStreamsError, TopicMissingError
from airflow_provider.kafka.broker_error import (
    ConnectionErrors,
    ask_leader,
    broker_error,
    damage,
    refusal,
    refused_topic,
)
from airflow_provider.kafka.connection import KafkaConnection

_BATCH: Final = 10_000
_POLL_S: Final = 0.2
_DESCRIBE_S: Final = 5.0
_CHECK: Final = "check the address and that the brokers answer."


class SpanReader:
    """Reads parts of one topic, within a time. A context manager: leaving it closes the consumer.

    Within it, whatever the client raises becomes an error of this package:
    `TopicMissingError` or what `broker_error` makes of a topic that there is not, `ConfigurationError` for want of a
    right, `BrokerUnreachableError` for the rest.

    Args:
        timeout_s: how long all of it may take, from now on.
        missing: what is raised where the topic does not exist; None for what the brokers say.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        application_id: str,
        topic: str,
        *,
        timeout_s: float = 120.0,
        missing: TopicMissingError | None = None,
    ) -> None:
        self._servers, self._topic, self._missing = connection.bootstrap_servers, topic, missing
        self._what = f"Reading {topic}"
        self._timeout_s, self._deadline = timeout_s, time.monotonic() + timeout_s
        self._errors = ConnectionErrors(connection, logs=False)
        config: dict[str, Any] = {"client.id": f"{application_id}-reader", "error_cb": self._errors}
        self._consumer = Consumer(consumer_config(connection, application_id) | config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close the consumer; an error of the client becomes one of this package."""
        try:
            if isinstance(error, KafkaException):
                raise self._typed(error.args[0]) from error
        finally:
            self._consumer.close()

    def bounds(self, partition: int, since_ms: int | None = None) -> tuple[int, int]:
        """Where a partition begins, and its end as it is now.

        Args:
            since_ms: begin at what the brokers, or the producers where the topic says so, timed then or later, epoch
                ms; None for the first record that there is.
        """
        of = TopicPartition(self._topic, partition)
        low, end = ask_leader(lambda left_s: self._consumer.get_watermark_offsets(of, timeout=left_s), self._timeout_s)
        if since_ms is None:
            return int(low), int(end)
        at = TopicPartition(self._topic, partition, max(0, since_ms))
        found = ask_leader(functools.partial(self._offset_of_time, at), self._timeout_s)
        # An offset of -1 where nothing is as young: then there is nothing to read.
        return int(found.offset) if found.offset >= 0 else int(end), int(end)

    def _offset_of_time(self, at: TopicPartition, timeout_s: float) -> TopicPartition:
        (found,) = self._consumer.offsets_for_times([at], timeout=timeout_s)
        if found.error is not None:
            raise KafkaException(found.error)
        return found

    def read(self, spans: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
        """The records between offsets, those without a value too, each partition's in their order.

        Args:
            spans: by partition, the offset to begin at, and the one after the last, at which no transaction is open.

        Raises:
            TopicDamagedError: a record is not what was written.
            StatefulStreamsError: there is no such topic or partition, or it may not be read.
        """
        left = {number for number, (begin, end) in spans.items() if begin < end}
        self._consumer.assign([TopicPartition(self._topic, number, spans[number][0]) for number in sorted(left)])
        while left:
            if time.monotonic() > self._deadline:
                raise self._errors.unreachable(
                    f"{self._topic!r} at {self._servers} could not be read to its end within {self._timeout_s:g} s",
                    f"{len(left)} partition(s) of {len(spans)} not read to their end",
                    "check that the brokers answer.",
                )
            for message in self._consumer.consume(_BATCH, _POLL_S):
                number, offset, error = int(message.partition() or 0), int(message.offset() or 0), message.error()
                # Librdkafka looks for its group's coordinator, although what is assigned by hand needs no group.
                if number not in left or (error and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED):
                    continue
                end = spans[number][1]
                if error is None:
                    if offset < end:
                        yield message
                    offset += 1
                elif error.code() != KafkaError._PARTITION_EOF:
                    self._raise_if_final(message, error)
                    continue
                # Behind the last record that a transaction, compaction or deletion left, only an end says so.
                if offset >= end:
                    left.discard(number)

    def _raise_if_final(self, event: Message, error: KafkaError) -> None:
        if (found := damage(event) or refusal(error, self._what)) is not None:
            raise found
        if error.code() in UNKNOWN_TOPIC:
            raise self._typed(error)

    def _typed(self, error: KafkaError) -> StatefulStreamsError:
        if error.code() in UNKNOWN_TOPIC:
            # One that may not be described looks like one that is missing.
            refused = refused_topic(self._consumer, self._topic, self._what, _DESCRIBE_S)
            return refused or self._missing or broker_error(error, self._what, _CHECK)
        if (refused := refusal(error, self._what)) is not None:
            return refused
        self._consumer.poll(0)  # hands over why its connections failed
        return self._errors.unreachable(f"{self._topic!r} at {self._servers} could not be read", error.str(), _CHECK)
