"""Writes and reads ``<app>-history``."""

from __future__ import annotations

import logging
import time

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider.control.records.history import (
    HistoryKind,
    HistoryRecord,
    history_key,
    history_value,
    read_history_value,
)
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.errors import TopicMissingError
from airflow_provider.kafka.broker_error import ConnectionErrors, refusal
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import history_topic
from airflow_provider.kafka.transactional_producer import flush

log = logging.getLogger(__name__)


def write_history(
    connection: KafkaConnection, application_id: str, *records: HistoryRecord, timeout_s: float = 10.0
) -> None:
    """Store records, and wait until they are stored. One of the same kind and id takes the place of the earlier one.

    Raises:
        TopicMissingError: the application has no history topic.
    """
    topic, deadline = history_topic(application_id), time.monotonic() + timeout_s
    errors = ConnectionErrors(connection, logs=False)
    producer = Producer(
        connection.to_client_config()
        | {
            "error_cb": errors,
            "enable.idempotence": True,
            "linger.ms": 0,
            "compression.type": "zstd",
            "message.timeout.ms": max(1, int(1000 * timeout_s)),
            "client.id": f"{application_id}-history",
        }
    )
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    try:
        # All topics are listed: the brokers may create one that a producer asks for by its name.
        if topic not in producer.list_topics(timeout=timeout_s).topics:
            raise _missing(topic)
        for record in records:
            producer.produce(topic, history_value(record), history_key(record), partition=0, on_delivery=delivered)
        left = flush(producer, max(0.0, deadline - time.monotonic()))
    except KafkaException as error:
        if not error.args[0].fatal():
            producer.poll(0)  # hands over why its connections failed
        failed.insert(0, error.args[0])
        left = len(records)
    if (
        failed
        and (refused := refusal(failed[0], f"Writing to {topic}", f"Describe and Write on the topic {topic}"))
        is not None
    ):
        raise refused
    if left or failed:
        why = failed[0].str() if failed else f"no answer within {timeout_s:g} s"
        keys = ", ".join(history_key(record).decode() for record in records)
        what = f"{keys} was not stored in {topic!r} at {connection.bootstrap_servers}"
        raise errors.unreachable(what, why, "check that the brokers answer.")


def read_history(
    connection: KafkaConnection,
    application_id: str,
    since: int | None = None,
    kind: HistoryKind | None = None,
    timeout_s: float = 30.0,
) -> tuple[HistoryRecord, ...]:
    """What an application went through, the oldest first.

    A record that cannot be read, as one of a newer format, is left out with a warning.

    Args:
        since: only what began then or later, epoch ms; None for all.

    Raises:
        TopicMissingError: the application has no history topic.
    """
    topic = history_topic(application_id)
    found: dict[bytes, HistoryRecord] = {}
    with SpanReader(connection, application_id, topic, timeout_s=timeout_s, missing=_missing(topic)) as reader:
        for message in reader.read({0: reader.bounds(0)}):
            _take(found, message)
    wanted = (
        record
        for record in found.values()
        if (since is None or record.at_ms >= since) and (kind is None or record.kind is kind)
    )
    return tuple(sorted(wanted, key=lambda record: (record.at_ms, record.id)))


def _take(found: dict[bytes, HistoryRecord], message: Message) -> None:
    key, value = message.key() or b"", message.value()
    if value is None:
        found.pop(key, None)
        return
    try:
        found[key] = read_history_value(value)
    except msgspec.DecodeError as why:
        log.warning("The record under %r of %s cannot be read and is left out: %s", key, message.topic(), why)


def _missing(topic: str) -> TopicMissingError:
    return TopicMissingError(
        f"History topic {topic!r} does not exist: correct the application id if it is misspelt, or create it: "
        "run CreateChangelogTopicsOperator, as the deploy DAG does, or 'stateful-streams topics repair JOB.py --apply'."
    )
