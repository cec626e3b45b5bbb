"""Reads what the job left in Kafka, as any consumer would."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.demo.aircraft import Aircraft
from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.judge import Outputs
from airflow_provider.demo.state_row import COMMIT_KEY, Commit, decode_commit, decode_state
from airflow_provider.kafka.connection import KafkaConnection

__all__ = ["OutputTimes", "read_outputs", "read_state"]

_DEADLINE_S: Final = 60.0

OutputTimes = Mapping[int, list[int]]
"""By partition, when the broker stored each output, epoch ms, in order."""


@dataclass(frozen=True)
class _Topic:
    """A topic, read from its beginning to the end that it has now."""

    connection: KafkaConnection
    name: str

    def messages(self) -> Iterator[Message]:
        """Every committed record; those of one partition in their order.

        Raises:
            DemoError: the end was not reached in time.
        """
        consumer = Consumer(
            self.connection.to_client_config()
            | {
                "group.id": "demo-judge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )
        try:
            partitions = set(consumer.list_topics(self.name, timeout=10.0).topics[self.name].partitions)
            consumer.assign([TopicPartition(self.name, number, 0) for number in partitions])
            deadline = time.monotonic() + _DEADLINE_S
            while partitions:
                for message in consumer.consume(10_000, 0.1):
                    error = message.error()
                    if error is None:
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        partitions.discard(int(message.partition() or 0))
                    else:
                        raise KafkaException(error)
                if time.monotonic() > deadline:
                    raise DemoError(f"Topic {self.name!r} could not be read to its end within {_DEADLINE_S:g} s.")
        finally:
            consumer.close()


def read_state(
    connection: KafkaConnection, changelog: str, source: str
) -> tuple[dict[str, Aircraft], dict[int, Commit]]:
    """The newest state of every aircraft, and the last commit record of every task.

    Args:
        connection: the cluster.
        changelog: the changelog's topic.
        source: the source's topic, named in the commit records.
    """
    state: dict[str, bytes] = {}
    commits: dict[int, Commit] = {}
    for message in _Topic(connection, changelog).messages():
        key, value = message.key() or b"", message.value()
        if key == COMMIT_KEY:
            commits[int(message.partition() or 0)] = decode_commit(value or b"", source)
        elif value is None:
            state.pop(key.decode(), None)
        else:
            state[key.decode()] = value
    return {key: decode_state(value) for key, value in state.items()}, commits


def read_outputs(connection: KafkaConnection, sink: str) -> tuple[Outputs, OutputTimes]:
    """Every output that a reader under ``read_committed`` gets, and when the broker stored it."""
    outputs, times = Outputs(), dict[int, list[int]]()
    for message in _Topic(connection, sink).messages():
        value = json.loads(message.value() or b"null")
        aircraft = Aircraft(
            value["flights"], value["distance"], value["dep_delay_sum"], value["dep_delay_max"], value["last_dest"]
        )
        partition, (_, stored_ms) = int(message.partition() or 0), message.timestamp()
        outputs.take((message.key() or b"").decode(), aircraft, f"partition {partition}, offset {message.offset()}")
        times.setdefault(partition, []).append(stored_ms)
    return outputs, times
