"""Writes heartbeats, deployments, incidents and commands."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer

from airflow_provider.connection import KafkaConnection
from airflow_provider.control.command import Command
from airflow_provider.control.records import Value, to_key, to_value
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.names import assignment_topic, status_topic

__all__ = ["ControlWriter"]


class ControlWriter:
    """Everything in the control topics that needs no fencing: its newest value wins.

    Args:
        connection: the cluster.
        application_id: the application.
    """

    def __init__(self, connection: KafkaConnection, application_id: str) -> None:
        self._application_id = application_id
        self._bootstrap = connection.bootstrap_servers
        self._producer = Producer(
            connection.to_client_config()
            | {
                "enable.idempotence": True,
                "linger.ms": 0,
                # A heartbeat that is a minute old tells nothing: drop it rather than send it late.
                "message.timeout.ms": 60_000,
                # Known again soon after a broker's outage, before anybody takes the silence for the instance's own.
                "reconnect.backoff.max.ms": 1000,
                "client.id": f"{application_id}-control-writer",
            }
        )

    def send(self, value: Value) -> None:
        """Send without waiting: for heartbeats, the next of which follows anyway."""
        self._producer.produce(self._topic(value), to_value(value), to_key(value), partition=0)
        self._producer.poll(0)

    def write(self, value: Value, timeout_s: float = 10.0) -> None:
        """Send and wait until it is stored.

        Raises:
            BrokerUnreachableError: it was not stored within the deadline.
        """
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        self._producer.produce(self._topic(value), to_value(value), to_key(value), partition=0, on_delivery=delivered)
        if self._producer.flush(timeout_s) or failed:
            why = failed[0].str() if failed else f"no answer within {timeout_s:g} s"
            raise BrokerUnreachableError(
                f"{to_key(value).decode()} was not stored in {self._topic(value)!r} at {self._bootstrap} ({why}): "
                "check that the topic exists and the brokers answer."
            )

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what is left."""
        self._producer.flush(timeout_s)

    def _topic(self, value: Value) -> str:
        to_instances = isinstance(value, Command)
        return assignment_topic(self._application_id) if to_instances else status_topic(self._application_id)
