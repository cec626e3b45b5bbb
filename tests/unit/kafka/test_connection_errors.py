"""What is said while no broker answers: by real clients, at a port where nothing listens."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.cli.main import main as command_line
from airflow_provider.control.topics.cursor import consumer_config
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka import connection_errors
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.connection_errors import ConnectionErrors, certificate_problem
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kit.ports import free_ports
from airflow_provider.streaming.driver.watches.source_ends import SourceEnds
from tests.certificates import Authority, Certificate
from tests.unit.kafka.local_server import local_server

REFUSED = "Connect to ipv4#127.0.0.1:{port} failed: Connection refused"


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def connection(port: int) -> KafkaConnection:
    return KafkaConnection(f"127.0.0.1:{port}")


def list_topics(connection: KafkaConnection) -> None:
    TopicAdmin(connection, timeout_s=2.0).describe("orders")


def read_control_topics(connection: KafkaConnection) -> None:
    with ControlReader(connection, "orders") as reader:
        reader.read_to_end(timeout_s=2.0)


@pytest.mark.parametrize("ask", [list_topics, read_control_topics])
def test_error_has_the_reason_and_librdkafka_writes_nothing(
    ask: Callable[[KafkaConnection], None], connection: KafkaConnection, port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BrokerUnreachableError, match=REFUSED.format(port=port)):
        ask(connection)

    assert "FAIL" not in capfd.readouterr().err


def test_reader_that_waits_for_its_brokers_logs_the_reason_once(
    connection: KafkaConnection, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    deadline = time.monotonic() + 2.0
    with caplog.at_level(logging.WARNING), ControlReader(connection, "orders") as reader:
        while time.monotonic() < deadline:
            reader.poll(0.1)

    (said,) = [record.getMessage() for record in caplog.records if record.name == connection_errors.__name__]
    assert said.endswith(REFUSED.format(port=port))


def test_reason_is_logged_again_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = ConnectionErrors(KafkaConnection("a:1"))
    errors(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "one: refused (after 0ms in state CONNECT)"))
    errors(
        KafkaError(
            KafkaError.BROKER_NOT_AVAILABLE,
            "one: refused (after 7ms in state CONNECT, 1 identical error(s) suppressed)",
        )
    )
    errors(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "two: refused"))
    errors(KafkaError(KafkaError._ALL_BROKERS_DOWN, "2/2 brokers are down"))
    assert [record.args for record in caplog.records] == [("one: refused",), ("two: refused",)]

    assert errors.because("timed out") == "timed out; two: refused"

    monkeypatch.setattr(connection_errors, "_AGAIN_S", 0.0)
    errors(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "two: refused"))

    assert len(caplog.records) == 3
    assert errors.because("timed out") == "timed out", "it may have connected since"
    assert ConnectionErrors(KafkaConnection("a:1")).because("timed out") == "timed out"


def test_command_line_says_it_in_one_line(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert command_line(["status", "orders", "--bootstrap-servers", f"127.0.0.1:{port}"]) == 1

    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert REFUSED.format(port=port) in said


def test_source_whose_ends_are_not_known_says_why(connection: KafkaConnection) -> None:
    ends = SourceEnds(connection, "orders", timeout_s=0.5)
    try:
        with pytest.raises((KafkaException, TimeoutError), match=r"\w+"):
            ends.look({0: 0})
    finally:
        ends.close()


def test_configuration_of_a_reader_keeps_librdkafka_quiet(connection: KafkaConnection) -> None:
    assert consumer_config(connection, "orders")["log_level"] == "2"


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
