"""Reads what the job left in Kafka, as any consumer would."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.judge import Outputs, T
from airflow_provider.demo.state_row import COMMIT_KEY, Commit, decode_commit
from airflow_provider.demo.truth import Aircraft, AirportHour
from airflow_provider.kafka.connection import KafkaConnection

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
    connection: KafkaConnection, changelog: str, source: str, decode: Callable[[bytes, bytes], tuple[str, T]]
) -> tuple[dict[str, T], dict[int, Commit]]:
    """The newest state of every key, and the last commit record of every task of a stage.

    Args:
        changelog: the changelog's topic, or that of the commits of a stage without a store.
        source: the stage's source, named in the commit records.
        decode: of a record's key and value, see `state_row`.
    """
    state: dict[bytes, bytes] = {}
    commits: dict[int, Commit] = {}
    for message in _Topic(connection, changelog).messages():
        key, value = message.key() or b"", message.value()
        if key == COMMIT_KEY:
            commits[int(message.partition() or 0)] = decode_commit(value or b"", source)
        elif value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return dict(decode(key, value) for key, value in state.items()), commits


def read_outputs(
    connection: KafkaConnection, sink: str, row_of: Callable[[Mapping[str, Any]], T]
) -> tuple[Outputs[T], OutputTimes]:
    """Every output that a reader under ``read_committed`` gets, and when the broker stored it."""
    outputs, times = Outputs[T](), dict[int, list[int]]()
    for message in _Topic(connection, sink).messages():
        row = row_of(json.loads(message.value() or b"null"))
        partition, (_, stored_ms) = int(message.partition() or 0), message.timestamp()
        outputs.take((message.key() or b"").decode(), row, f"{sink}, partition {partition}, offset {message.offset()}")
        times.setdefault(partition, []).append(stored_ms)
    return outputs, times


def aircraft_of(value: Mapping[str, Any]) -> Aircraft:
    """Of an output."""
    return Aircraft(
        value["flights"], value["distance"], value["dep_delay_sum"], value["dep_delay_max"], value["last_dest"]
    )


def airport_hour_of(value: Mapping[str, Any]) -> AirportHour:
    """Of an output."""
    return AirportHour(value["flights"], value["dep_delay_mean"])
