"""Reads the committed records between offsets of a topic: an ordinary consumer that shares no code with the writers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.control.cursor import UNKNOWN_TOPIC, consumer_config
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka.broker_error import broker_error
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.connection_errors import ConnectionErrors

__all__ = ["read_span"]

_BATCH: Final = 10_000
_FINAL: Final = UNKNOWN_TOPIC | {KafkaError.TOPIC_AUTHORIZATION_FAILED}


def read_span(
    connection: KafkaConnection,
    application_id: str,
    topic: str,
    *,
    spans: Mapping[int, tuple[int, int]],
    take: Callable[[Message], None],
    timeout_s: float,
) -> None:
    """Hand over the committed records of a topic between offsets, each partition's in their order.

    Args:
        connection: the cluster.
        application_id: the application that reads.
        topic: which.
        spans: by partition, the offset to begin at, and the one after the last, at which no transaction is open.
        take: gets each record.
        timeout_s: how long it may take in all.

    Raises:
        BrokerUnreachableError: the end was not reached in time.
        StatefulStreamsError: there is no such topic or partition, or it may not be read.
    """
    deadline, left = time.monotonic() + timeout_s, {n for n, (begin, end) in spans.items() if begin < end}
    errors = ConnectionErrors(logs=False)
    config: dict[str, Any] = {"client.id": f"{application_id}-drill", "error_cb": errors}
    consumer = Consumer(consumer_config(connection, application_id) | config)
    try:
        consumer.assign([TopicPartition(topic, number, spans[number][0]) for number in sorted(left)])
        while left:
            if time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    f"{topic} at {connection.bootstrap_servers} could not be read to its end within {timeout_s:g} s: "
                    "check that the brokers answer."
                )
            for message in consumer.consume(_BATCH, 0.2):
                number, offset, error = int(message.partition() or 0), int(message.offset() or 0), message.error()
                if number not in left:
                    continue
                end = spans[number][1]
                if error is None:
                    if offset < end:
                        take(message)
                    offset += 1
                elif error.code() in _FINAL:
                    raise broker_error(error, f"Reading {topic}", "check that the brokers answer.")
                elif error.code() != KafkaError._PARTITION_EOF:
                    continue
                # Where a transaction's marker is the last before the end, only what comes behind it says so.
                if offset >= end:
                    left.discard(number)
    except KafkaException as error:
        consumer.poll(0)  # hands over why its connections failed
        raise BrokerUnreachableError(
            f"{topic} at {connection.bootstrap_servers} could not be read ({errors.because(error.args[0].str())}): "
            "check the address and that the brokers answer."
        ) from error
    finally:
        consumer.close()
