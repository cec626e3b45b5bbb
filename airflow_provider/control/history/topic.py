"""Writes and reads ``<app>-history``."""

from __future__ import annotations

import logging

import msgspec
from confluent_kafka import Message

from airflow_provider.control.records.history import HistoryKind, HistoryRecord, read_history_value
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.errors import TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import history_topic

log = logging.getLogger(__name__)


def write_history(
    connection: KafkaConnection, application_id: str, *records: HistoryRecord, timeout_s: float = 10.0
) -> None:
    """Store records, and wait until they are stored. One of the same kind and id takes the place of the earlier one.

    Args:
        timeout_s: how long each may take.

    Raises:
        TopicMissingError: the application has no history topic.
    """
    missing: TopicMissingError | None = _missing(history_topic(application_id))
    with ControlWriter(connection, application_id) as writer:
        for record in records:
            writer.write(record, timeout_s, missing)
            missing = None  # the topic is there: all topics are listed once


def read_history(
    connection: KafkaConnection,
    application_id: str,
    since: int | None = None,
    kind: HistoryKind | None = None,
    timeout_s: float = 30.0,
    *,
    stored_since: int | None = None,
) -> tuple[HistoryRecord, ...]:
    """What an application went through, the oldest first.

    A record that cannot be read, as one of a newer format, is left out with a warning.

    Args:
        since: only what began then or later, epoch ms; None for all.
        stored_since: only from the first record on that was written then or later, by its writer's clock: what lies
            before is not read; None for all.

    Raises:
        TopicMissingError: the application has no history topic.
    """
    topic = history_topic(application_id)
    found: dict[bytes, HistoryRecord] = {}
    with SpanReader(connection, application_id, topic, timeout_s=timeout_s, missing=_missing(topic)) as reader:
        for message in reader.read({0: reader.bounds(0, stored_since)}):
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
