"""Reads a topic of one partition once, to the end that it has now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.control.cursor import UNKNOWN_TOPIC, consumer_config
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicMissingError
from airflow_provider.kafka.broker_error import damage, refusal, refusal_to_describe
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.connection_errors import ConnectionErrors

__all__ = ["scan_topic"]

_BATCH: Final = 1000
_DESCRIBE_S: Final = 5.0


def scan_topic(
    connection: KafkaConnection,
    application_id: str,
    topic: str,
    *,
    missing: TopicMissingError,
    since: int | None = None,
    timeout_s: float = 30.0,
) -> Iterator[Message]:
    """The records of a topic in their order, those without a value too.

    Args:
        connection: the cluster.
        application_id: whose topic it is.
        topic: its name.
        missing: what is raised where it does not exist.
        since: only what the brokers, or the producers where the topic says so, timed then or later, epoch ms; None for
            all.
        timeout_s: how long it may take.

    Raises:
        TopicMissingError: there is no such topic.
        TopicDamagedError: a record is not what was written.
        ConfigurationError: it may not be read.
        BrokerUnreachableError: the end was not reached in time.
    """
    deadline = time.monotonic() + timeout_s
    errors = ConnectionErrors(logs=False)
    config: dict[str, Any] = {"client.id": f"{application_id}-scan", "error_cb": errors}
    consumer = Consumer(consumer_config(connection, application_id) | config)
    try:
        position, end = _bounds(consumer, topic, since, timeout_s)
        consumer.assign([TopicPartition(topic, 0, position)])
        while position < end:
            if time.monotonic() > deadline:
                why = errors.because(f"offset {position} of {end} reached")
                raise BrokerUnreachableError(
                    f"{topic!r} at {connection.bootstrap_servers} could not be read to its end within {timeout_s:g} s "
                    f"({why}): check that the brokers answer."
                )
            for message in consumer.consume(_BATCH, 0.2):
                error, offset = message.error(), int(message.offset() or 0)
                if error is None:
                    position = offset + 1
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    # Behind the last record that compaction or deletion left, only this event says where the end is.
                    position = max(position, offset)
                elif (damaged := damage(message)) is not None:
                    raise damaged
                elif (refused := refusal(error, f"Reading {topic}")) is not None:
                    raise refused
    except KafkaException as error:
        if (refused := _refusal(consumer, topic, error.args[0])) is not None:
            raise refused from error
        if error.args[0].code() in UNKNOWN_TOPIC:
            raise missing from error
        consumer.poll(0)  # hands over why its connections failed
        raise BrokerUnreachableError(
            f"{topic!r} at {connection.bootstrap_servers} could not be read ({errors.because(error.args[0].str())}): "
            "check the address and that the brokers answer."
        ) from error
    finally:
        consumer.close()


def _refusal(consumer: Consumer, topic: str, error: KafkaError) -> ConfigurationError | None:
    """The error where the topic may not be read; one that may not even be described looks like one that is missing."""
    what = f"Reading {topic}"
    if error.code() not in UNKNOWN_TOPIC:
        return refusal(error, what)
    try:
        return refusal_to_describe(consumer.list_topics(topic, timeout=_DESCRIBE_S), topic, what)
    except KafkaException:
        return None


def _bounds(consumer: Consumer, topic: str, since: int | None, timeout_s: float) -> tuple[int, int]:
    """Where to begin, and the end."""
    low, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=timeout_s)
    if since is None:
        return int(low), int(end)
    # An offset of -1 where nothing is as young: then there is nothing to read.
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, max(0, since))], timeout=timeout_s)
    if found.error is not None:
        raise KafkaException(found.error)
    return int(found.offset) if found.offset >= 0 else int(end), int(end)
