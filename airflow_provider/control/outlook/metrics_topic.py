"""Writes and reads ``<app>-metrics``."""

from __future__ import annotations

import logging
from typing import Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider.control.records.metrics import MetricsRecord, metrics_value, read_metrics_value
from airflow_provider.control.topics.cursor import missing_beside
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.kafka.broker_error import ConnectionErrors
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import metrics_topic

log = logging.getLogger(__name__)

_LIST_S: Final = 5.0


class MetricsWriter:
    """Sends the figures of an instance. Nothing waits for them, and one that cannot be stored is gone.

    A client of its own: neither its queue nor its errors touch the heartbeats or the transactions. Used by one thread.

    Args:
        keep_s: for how long a record is tried to be stored: until the next one is due.
    """

    def __init__(self, connection: KafkaConnection, application_id: str, keep_s: float = 60.0) -> None:
        self._topic = metrics_topic(application_id)
        self._bootstrap = connection.bootstrap_servers
        self._errors = ConnectionErrors(connection, logs=False)
        self._there = False
        self._failed: KafkaError | None = None
        self._producer = Producer(
            connection.to_client_config()
            | {
                "error_cb": self._errors,
                "linger.ms": 0,
                "compression.type": "zstd",
                "message.timeout.ms": max(1, int(1000 * keep_s)),
                "allow.auto.create.topics": False,
                "client.id": f"{application_id}-metrics",
            }
        )

    def send(self, record: MetricsRecord) -> None:
        """Send without waiting for it to be stored.

        Raises:
            TopicMissingError: the application has no metrics topic; it is looked for again by the next one.
            BrokerUnreachableError: the brokers did not say whether there is one, or the record before was not stored.
        """
        if not self._there:
            self._look()
        self._producer.produce(
            self._topic, metrics_value(record), record.instance.encode(), partition=0, on_delivery=self._delivered
        )
        self._producer.poll(0)
        failed, self._failed = self._failed, None
        if failed is not None:
            self._there = False
            what = f"The record before was not stored in {self._topic!r} at {self._bootstrap}"
            raise self._errors.unreachable(what, failed.str(), "check that the brokers answer.")

    def close(self, timeout_s: float = 1.0) -> None:
        """Send what is left, for as long as is allowed."""
        self._producer.flush(timeout_s)

    def _look(self) -> None:
        # All topics are listed: the brokers may create one that a producer asks for by its name.
        try:
            topics = self._producer.list_topics(timeout=_LIST_S).topics
        except KafkaException as error:
            self._producer.poll(0)  # hands over why its connections failed
            what = f"The topics at {self._bootstrap} could not be listed"
            raise self._errors.unreachable(what, error.args[0].str(), "check that the brokers answer.") from error
        if self._topic not in topics:
            raise missing_beside("Metrics", self._topic)
        self._there = True

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._failed = error or self._failed


def read_metrics(
    connection: KafkaConnection, application_id: str, since: int | None = None, timeout_s: float = 30.0
) -> tuple[MetricsRecord, ...]:
    """The figures of all instances, the oldest first, each timed by the brokers.

    A record that cannot be read, as one of a newer format, is left out with a warning.

    Args:
        since: only what was stored then or later, epoch ms; None for all, which is a week.

    Raises:
        TopicMissingError: the application has no metrics topic.
    """
    topic = metrics_topic(application_id)
    found: list[MetricsRecord] = []
    with SpanReader(
        connection, application_id, topic, timeout_s=timeout_s, missing=missing_beside("Metrics", topic)
    ) as reader:
        for message in reader.read({0: reader.bounds(0, since)}):
            value, (_, at_ms) = message.value(), message.timestamp()
            if value is None:
                continue
            try:
                found.append(read_metrics_value(value, at_ms))
            except msgspec.DecodeError as why:
                log.warning("The record at %s of %s cannot be read and is left out: %s", message.offset(), topic, why)
    return tuple(found)
