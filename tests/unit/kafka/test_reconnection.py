"""A broker that starts is not kept from it by those who wait for it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Consumer, TopicPartition

from airflow_provider.kafka.connection import KafkaConnection
from tests.unit.kafka.local_server import local_server

LOOK_S = 4.0


@contextmanager
def hanging_up() -> Iterator[tuple[int, list[float]]]:
    """A server on loopback that hangs up at once; gives its port, and when somebody came."""
    came: list[float] = []

    def greet(client: socket.socket) -> None:
        came.append(time.monotonic())
        client.close()

    with local_server(greet) as port:
        yield port, came


def connections(config: dict[str, str]) -> int:
    with hanging_up() as (port, came), closing(Consumer(config | {"bootstrap.servers": f"127.0.0.1:{port}"})) as client:
        client.assign([TopicPartition("orders", 0, 0)])
        deadline = time.monotonic() + LOOK_S
        while time.monotonic() < deadline:
            client.poll(0.1)
        return len(came)


def test_client_tries_again_a_quarter_as_often_as_by_librdkafkas_default() -> None:
    own = KafkaConnection("127.0.0.1:1").to_client_config() | {"group.id": "app"}
    default = {name: value for name, value in own.items() if name != "reconnect.backoff.ms"}

    tried = connections(own)

    assert tried >= 2
    assert tried <= connections(default) / 3
