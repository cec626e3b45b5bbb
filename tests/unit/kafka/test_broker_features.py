"""The brokers' version of transactions, as they answer it, or do not."""

from __future__ import annotations

import socket
import struct

import pytest

from airflow_provider.kafka.broker_features import transaction_version
from airflow_provider.kafka.connection import KafkaConnection
from tests.unit.kafka.local_server import local_server

SUPPORTED = b"\x02" + struct.pack(">hhh", 18, 0, 4) + b"\0"
"""One request, of no interest here."""


def features(*named: tuple[bytes, int]) -> bytes:
    """The tagged field 2 of ApiVersionsResponse 3, finalized features, behind field 1, which says since when."""
    levels = b"".join(bytes([len(name) + 1]) + name + struct.pack(">hh", highest, 0) + b"\0" for name, highest in named)
    value = bytes([len(named) + 1]) + levels
    return b"\x02" + b"\x01\x08" + struct.pack(">q", 7) + bytes([2, len(value)]) + value


def answer(error: int = 0, tagged: bytes = b"\0") -> bytes:
    return struct.pack(">ih", 1, error) + SUPPORTED + struct.pack(">i", 0) + tagged


@pytest.mark.parametrize(
    ("body", "size", "expected"),
    [
        pytest.param(answer(tagged=features((b"group.version", 1), (b"transaction.version", 2))), 0, 2, id="finalized"),
        pytest.param(answer(tagged=features((b"group.version", 1))), 0, 0, id="others are finalized"),
        pytest.param(answer(), 0, 0, id="no feature is finalized"),
        pytest.param(answer(error=35), 0, None, id="the request is too new for the broker"),
        pytest.param(answer(), 100, None, id="the rest of the answer never comes"),
        pytest.param(b"", -4, None, id="no answer"),
    ],
)
def test_version_is_that_which_is_finalized(body: bytes, size: int, expected: int | None) -> None:
    """`size` bytes are promised beside those that come."""

    def serve(client: socket.socket) -> None:
        with client:
            client.recv(100)
            client.sendall(struct.pack(">i", len(body) + size) + body if body else b"")

    with local_server(serve) as port:
        connection = KafkaConnection(f"127.0.0.1:{port}")
        assert transaction_version(connection, timeout_s=5.0) == expected


def test_version_is_not_known_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert transaction_version(KafkaConnection(f"127.0.0.1:{port}"), timeout_s=1.0) is None
