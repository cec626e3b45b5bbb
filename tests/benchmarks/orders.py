"""Single orders for `latency_job`, and what comes of them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from airflow_provider.kafka.connection import KafkaConnection

__all__ = ["SINK", "SOURCE", "Orders"]

SOURCE: Final = "orders"
SINK: Final = "newest"
_TIMEOUT_S: Final = 300.0


class Orders:
    """Produces single orders, and waits for what comes of them.

    Args:
        connection: the cluster.
        tasks: how many partitions source and sink have.
    """

    def __init__(self, connection: KafkaConnection, tasks: int) -> None:
        self._producer = Producer(connection.to_client_config() | {"linger.ms": 0})
        self._consumer = Consumer(
            connection.to_client_config()
            | {"group.id": "idle", "isolation.level": "read_committed", "fetch.wait.max.ms": 5}
        )
        self._consumer.assign([TopicPartition(SINK, partition, 0) for partition in range(tasks)])

    def latency(self, key: str) -> float:
        """Seconds until the output of one order is committed."""
        begun, at = time.monotonic(), time.time_ns()
        self._producer.produce(SOURCE, json.dumps({"customer": key, "at": at}), key)
        self._producer.flush(10)
        self._await(at)
        return time.monotonic() - begun

    def fill(self, number: int) -> Mapping[int, str]:
        """Orders of so many customers, until all of them have come out.

        Returns:
            By partition of the source, one of its customers.
        """
        return self.send(_customers(number))

    def send(self, keys: Sequence[str]) -> Mapping[int, str]:
        """One order of each of these customers, until all of them have come out; see `fill`."""
        placed, left = self._put(keys), set(keys)
        deadline = time.monotonic() + _TIMEOUT_S
        while left:
            message = self._consumer.poll(0.5)
            if message is not None and message.error() is None and message.key() is not None:
                left.discard((message.key() or b"").decode())
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(left)} of {len(keys)} orders did not come out")
        return placed

    def put(self, number: int) -> None:
        """Orders of so many customers, which nobody waits for."""
        self._put(_customers(number))

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def _put(self, keys: Sequence[str]) -> Mapping[int, str]:
        placed = dict[int, str]()

        def note(_: KafkaError | None, message: Message) -> None:
            placed[message.partition() or 0] = (message.key() or b"").decode()

        for key in keys:
            order = json.dumps({"customer": key, "at": time.time_ns()})
            self._producer.produce(SOURCE, order, key, on_delivery=note)
        self._producer.flush(10)
        return placed

    def _await(self, at: int) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.5)
            if message is not None and message.error() is None and json.loads(message.value() or b"{}")["at"] >= at:
                return
        raise RuntimeError(f"an order did not come out within {_TIMEOUT_S:g} s")


def _customers(number: int) -> list[str]:
    return [f"customer-{customer:08d}" for customer in range(number)]
