"""What the brokers have agreed on, which librdkafka does not tell."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from io import BytesIO
from typing import Final

from airflow_provider.kafka.connection import KafkaConnection

_API_VERSIONS: Final = 18
_VERSION: Final = 3
_FINALIZED: Final = 2
_FEATURE: Final = "transaction.version"
_DEFAULT_PORT: Final = 9092


def transaction_version(connection: KafkaConnection, timeout_s: float = 5.0) -> int | None:
    """The finalized ``transaction.version`` of a cluster (KIP-584, KIP-890), asked of a bootstrap server.

    The request is ApiVersions 3, the one that every listener answers before anybody has logged in.

    Returns:
        0 where the brokers have not finalized one; None where none of them answered in time.
    """
    for server in connection.bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        address = (host.strip("[]") or server.strip(), int(port) if port.isdigit() else _DEFAULT_PORT)
        with contextlib.suppress(OSError, struct.error, ValueError):
            return _ask(connection, address, timeout_s)
    return None


def _ask(connection: KafkaConnection, address: tuple[str, int], timeout_s: float) -> int:
    with contextlib.ExitStack() as stack:
        to = stack.enter_context(socket.create_connection(address, timeout_s))
        if connection.security_protocol.endswith("SSL"):
            context = ssl.create_default_context(cafile=connection.ssl_ca_location)
            if connection.ssl_certificate_location:
                password = connection.ssl_key_password
                context.load_cert_chain(connection.ssl_certificate_location, connection.ssl_key_location, password)
            to = stack.enter_context(context.wrap_socket(to, server_hostname=address[0]))
        name = b"topics"
        header = struct.pack(">hhih", _API_VERSIONS, _VERSION, 1, len(name)) + name + b"\0"
        software = bytes([len(name) + 1]) + name
        request = header + software + software + b"\0"
        to.sendall(struct.pack(">i", len(request)) + request)
        answer = stack.enter_context(to.makefile("rb"))
        (size,) = struct.unpack(">i", answer.read(4))
        body = answer.read(size)
        if len(body) < size:
            raise ValueError(f"The broker closed the connection after {len(body)} of {size} bytes.")
        return _feature(BytesIO(body))


def _feature(answer: BytesIO) -> int:
    """The level in an answer, whose fields are those of ApiVersionsResponse 3."""
    _, error = struct.unpack(">ih", answer.read(6))
    if error:
        raise ValueError(f"The broker answered with the error {error}.")
    for _ in range(_varint(answer) - 1):
        answer.read(6)
        _skip_tags(answer)
    answer.read(4)
    for _ in range(_varint(answer)):
        tag, size = _varint(answer), _varint(answer)
        value = BytesIO(answer.read(size))
        if tag != _FINALIZED:
            continue
        for _ in range(_varint(value) - 1):
            name = value.read(_varint(value) - 1).decode()
            highest, _ = struct.unpack(">hh", value.read(4))
            _skip_tags(value)
            if name == _FEATURE:
                return int(highest)
    return 0


def _skip_tags(source: BytesIO) -> None:
    for _ in range(_varint(source)):
        _varint(source)
        source.read(_varint(source))


def _varint(source: BytesIO) -> int:
    value = shift = 0
    while True:
        (byte,) = source.read(1) or b"\0"
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
