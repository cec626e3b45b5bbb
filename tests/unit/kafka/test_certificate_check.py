"""Certificates that librdkafka refuses with one text, at a server that speaks TLS and nothing else."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka.certificate_check import certificate_problem
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from tests.certificates import Authority, Certificate
from tests.unit.kafka.local_server import local_server


@contextmanager
def showing(certificate: Certificate) -> Iterator[int]:
    """A server on loopback that hangs up after the handshake; gives its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.both)

    def greet(client: socket.socket) -> None:
        client.settimeout(5.0)
        with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True):
            pass

    with local_server(greet) as port:
        yield port


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def why(port: int, trusted: Authority, host: str = "127.0.0.1") -> str:
    connection = KafkaConnection(f"{host}:{port}", security_protocol="SSL", ssl_ca_location=str(trusted.file))
    with pytest.raises(BrokerUnreachableError) as refused:
        TopicAdmin(connection, timeout_s=1.0).names()
    return str(refused.value)


def test_expired_certificate_is_to_be_renewed(authority: Authority) -> None:
    with showing(authority.issue("broker", days=-0.5)) as port:
        assert f"The certificate of 127.0.0.1:{port}, or one of those that signed it, has expired: renew it" in why(
            port, authority
        )


def test_certificate_for_another_name_says_by_which_name_it_was_asked_for(authority: Authority) -> None:
    with showing(authority.issue("broker")) as port:
        said = why(port, authority, host="localhost")

    assert f"The certificate of localhost:{port} is for another name: name the broker as its certificate does" in said


def test_unknown_authority_says_which_are_trusted(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "other")
    with showing(authority.issue("broker")) as port:
        said = why(port, other)

    assert f"is signed by an authority that is not among those of {other.file}: set ssl_ca_location" in said


def test_certificate_that_is_fine_has_no_problem(authority: Authority) -> None:
    with showing(authority.issue("broker")) as port:
        assert certificate_problem("127.0.0.1", port, str(authority.file)) is None
