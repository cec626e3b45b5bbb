"""Writes heartbeats, deployments, incidents, commands and the history."""

from __future__ import annotations

import time
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.codec import Value, claim_key, to_key, to_value, topic_of
from airflow_provider.errors import AccessError, TopicMissingError
from airflow_provider.kafka.broker_error import ConnectionErrors, refusal
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic
from airflow_provider.kafka.transactional_producer import DeliveryErrors, flush


class ControlWriter:
    """Everything in the control topics that needs no fencing: its newest value wins. A context manager."""

    def __init__(self, connection: KafkaConnection, application_id: str) -> None:
        self._application_id = application_id
        self._refused: AccessError | None = None
        self._fatal: KafkaException | None = None
        self._bootstrap = connection.bootstrap_servers
        self._errors = ConnectionErrors(connection, logs=False)
        self._producer = Producer(
            connection.to_client_config()
            | {
                "error_cb": self._errors,
                "enable.idempotence": True,
                "linger.ms": 0,
                # Statuses are JSON in which each task repeats the words of the one before.
                "compression.type": "zstd",
                # A heartbeat that is a minute old is worth nothing: drop it rather than send it late.
                "message.timeout.ms": 60_000,
                # Known again soon after a broker's outage, before the silence is taken for the instance's own.
                "reconnect.backoff.max.ms": 1000,
                # One that was deleted would come back with the cluster's settings, not compacted.
                "allow.auto.create.topics": False,
                "client.id": f"{application_id}-control-writer",
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Send what is left, unless something was raised: nobody waits longer for what could not be stored in time."""
        if error is None:
            self.close()

    def send(self, value: Value) -> None:
        """Send without waiting: for heartbeats, the next of which follows anyway."""
        self._producer.produce(
            self._topic(value), to_value(value), to_key(value), partition=0, on_delivery=self._delivered
        )
        self._producer.poll(0)

    def check(self) -> None:
        """Raise where what was sent without waiting may not be written.

        Raises:
            AccessError: the connection's user lacks a right, as far as the last answer said.
        """
        if self._refused is not None:
            raise self._refused

    def write(self, value: Value, timeout_s: float = 10.0, missing: TopicMissingError | None = None) -> None:
        """Send and wait until it is stored.

        Args:
            missing: what is raised where there is no such topic; None to find out by that nothing is stored.
        """
        topic, key, deadline = self._topic(value), to_key(value), time.monotonic() + timeout_s
        failed = DeliveryErrors()
        try:
            # All topics are listed: the brokers may create one that a producer asks for by its name.
            if missing is not None and topic not in self._producer.list_topics(timeout=timeout_s).topics:
                raise missing
            self._producer.produce(topic, to_value(value), key, partition=0, on_delivery=failed)
            left = flush(self._producer, max(0.0, deadline - time.monotonic()))
        except KafkaException as error:
            left = 1
            failed.insert(0, self._cause(error).args[0])
        if left or failed:
            what, needed = f"Writing {key.decode()} to {topic}", f"Describe and Write on the topic {topic}"
            if failed and (refused := refusal(failed[0], what, needed)) is not None:
                raise refused
            raise self._errors.unreachable(
                f"{key.decode()} was not stored in {topic!r} at {self._bootstrap}",
                failed[0].str() if failed else f"no answer within {timeout_s:g} s",
                "check that the topic exists and the brokers answer.",
            )

    def _cause(self, error: KafkaException) -> KafkaException:
        """What is behind an error: that nothing can be written any more says nothing of why, and why is said once."""
        if not error.args[0].fatal():
            try:
                flush(self._producer, 0)  # hands over why its connections failed, too
            except KafkaException as found:
                error = found
        if error.args[0].fatal():
            self._fatal = error
        return self._fatal or error

    def forget(self, value: Value) -> None:
        """Send that a value is gone, without waiting; with an instance's status goes the claim of its launch."""
        self._producer.produce(self._topic(value), None, to_key(value), partition=0, on_delivery=self._delivered)
        if isinstance(value, InstanceStatus):
            self._producer.produce(assignment_topic(self._application_id), None, claim_key(value.instance), partition=0)
        self._producer.poll(0)

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what is left."""
        self._producer.flush(timeout_s)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._refused = None  # what was taken away was given back
        else:
            needed = f"Describe and Write on the topic {message.topic()}"
            self._refused = refusal(error, f"Writing to {message.topic()}", needed) or self._refused

    def _topic(self, value: Value) -> str:
        return topic_of(value, self._application_id)


def write_control(connection: KafkaConnection, application_id: str, *values: Value, timeout_s: float = 10.0) -> None:
    """Store values that need no fencing, one after the other.

    Args:
        timeout_s: how long each may take.
    """
    with ControlWriter(connection, application_id) as writer:
        for value in values:
            writer.write(value, timeout_s)
