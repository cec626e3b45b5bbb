"""``<app>-lookups``: who asks and who answers write into it, and read what comes from now on."""

from __future__ import annotations

import time
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from airflow_provider.control.records.lookup import Answer, Question, lookup_key, lookup_value, read_lookup
from airflow_provider.control.topics.cursor import UNKNOWN_TOPIC, consumer_config, missing_beside
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.broker_error import ConnectionErrors, ask_leader, refusal, refused_topic
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import lookups_topic
from airflow_provider.kafka.transactional_producer import DeliveryErrors, flush

_CONNECT_S: Final = 5.0
_SEND_S: Final = 5.0
_CHECK: Final = "check that the brokers answer."


class LookupChannel:
    """A consumer that begins at the topic's end, and a producer that is made when there is something to send.

    Used by one thread. A context manager: leaving it closes both.

    Raises:
        TopicMissingError: the application has no such topic.
        AccessError: it may not be read.
        BrokerUnreachableError: no broker says where its end is.
    """

    def __init__(self, connection: KafkaConnection, application_id: str) -> None:
        self.topic = lookups_topic(application_id)
        self._connection = connection
        self._errors = ConnectionErrors(connection, logs=False)
        self._client = {"client.id": f"{application_id}-lookups", "error_cb": self._errors}
        self._producer: Producer | None = None
        self._consumer = Consumer(
            consumer_config(connection, application_id)
            # A transaction that another program leaves open there holds nobody up.
            | {"fetch.wait.max.ms": 500, "isolation.level": "read_uncommitted"}
            | self._client
        )
        try:
            partition = TopicPartition(self.topic, 0)
            _, end = ask_leader(
                lambda left_s: self._consumer.get_watermark_offsets(partition, timeout=left_s), _CONNECT_S
            )
            self._consumer.assign([TopicPartition(self.topic, 0, int(end))])
        except KafkaException as error:
            found = self._typed(error.args[0], f"Reading {self.topic}", "Describe and Read")
            self._consumer.close()
            raise found from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def send(self, record: Question | Answer) -> None:
        """Send, and wait until it is stored.

        Raises:
            AccessError: the topic may not be written.
            BrokerUnreachableError: it was not stored in time.
        """
        failed = DeliveryErrors()
        try:
            if self._producer is None:
                self._producer = Producer(
                    self._connection.to_client_config()
                    | self._client
                    | {
                        "linger.ms": 0,
                        "compression.type": "zstd",
                        "message.timeout.ms": int(_SEND_S * 1000),
                        "allow.auto.create.topics": False,
                    }
                )
            self._producer.produce(
                self.topic, lookup_value(record), lookup_key(record), partition=0, on_delivery=failed
            )
            if flush(self._producer, _SEND_S):
                failed.append(KafkaError(KafkaError.REQUEST_TIMED_OUT))
        except KafkaException as error:
            failed.append(error.args[0])
        if failed:
            raise self._typed(failed[0], f"Writing to {self.topic}", "Describe and Write")

    def receive(self, timeout_s: float) -> Question | Answer | None:
        """The next record, whoever wrote it; None where none comes in that time.

        Raises:
            TopicMissingError: the topic is gone.
            AccessError: it may not be read any more.
        """
        until = time.monotonic() + timeout_s
        while (left := until - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is None:
                return None
            if (error := message.error()) is None:
                if (record := read_lookup(message.key(), message.value())) is not None:
                    return record
            elif error.code() in {*UNKNOWN_TOPIC, KafkaError.TOPIC_AUTHORIZATION_FAILED}:
                raise self._typed(error, f"Reading {self.topic}", "Describe and Read")
        return None

    @property
    def stalled(self) -> bool:
        """Whether there is more than was read, although nothing has come for long (`ControlCursor` says why)."""
        partition = TopicPartition(self.topic, 0)
        try:
            _, end = self._consumer.get_watermark_offsets(partition, timeout=_CONNECT_S)
            (at,) = self._consumer.position([partition])
        except KafkaException:
            return False
        return 0 <= at.offset < end

    def _typed(self, error: KafkaError, what: str, needed: str) -> StatefulStreamsError:
        if error.code() in UNKNOWN_TOPIC:
            # One that may not be described looks like one that is missing.
            return refused_topic(self._consumer, self.topic, what, _CONNECT_S) or missing_beside("Lookups", self.topic)
        if (refused := refusal(error, what, f"{needed} on the topic {self.topic}")) is not None:
            return refused
        self._consumer.poll(0)  # hands over why its connections failed
        servers = self._connection.bootstrap_servers
        return self._errors.unreachable(f"{what} at {servers} failed", error.str(), _CHECK)
