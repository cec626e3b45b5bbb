from __future__ import annotations

import contextlib
import logging
import re
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
from airflow_provider.kafka.broker_error import ConnectionErrors, ask_leader, broker_error, certificate_problem, refusal
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kit.ports import free_ports
from airflow_provider.streaming.driver.watches.source_ends import SourceEnds
from tests.certificates import Authority, Certificate
from tests.unit.kafka.local_server import local_server

ROOT = Path(__file__).parents[3]
RIGHTS = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Create on",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Read on the consumer group",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Describe and DescribeConfigs on its topics, Read on .*, Write on ",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Describe and Write on the transactional ids",
}


@pytest.mark.parametrize(("code", "rights"), RIGHTS.items(), ids=[KafkaError(code).name() for code in RIGHTS])
def test_refusal_names_the_rights_and_where_all_of_them_stand(code: int, rights: str) -> None:
    refused = refusal(KafkaError(code), "Reading orders")

    assert refused is not None
    assert re.search(f"^Reading orders is not authorized .*: grant the connection's user {rights}", str(refused))
    ((heading, page),) = re.findall(r"'(\w+)' in (\S+\.md)", str(refused))
    assert f"## {heading}\n" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "code", [KafkaError.REQUEST_TIMED_OUT, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.POLICY_VIOLATION]
)
def test_other_answers_are_no_refusal(code: int) -> None:
    assert refusal(KafkaError(code), "Reading orders") is None


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "AccessError", "not authorized"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "AccessError", "not authorized"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "LoginRefusedError", "user name, password and SASL mechanism"),
        (KafkaError.POLICY_VIOLATION, "ConfigurationError", "was refused by the brokers"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, "ConfigurationError", "was refused by the brokers"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "ConfigurationError", "max.message.bytes"),
        (KafkaError.TOPIC_EXCEPTION, "TopicMismatchError", "collide"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "TopicMissingError", "no such topic"),
        (KafkaError.FENCED_LEADER_EPOCH, "BrokerUnreachableError", "that all brokers run"),
        (KafkaError._ALL_BROKERS_DOWN, "BrokerUnreachableError", "look at the brokers"),
    ],
)
def test_answer_says_what_to_do(code: int, kind: str, words: str) -> None:
    error = broker_error(KafkaError(code), "The transaction of 'app-0_0'", "look at the brokers")

    assert type(error).__name__ == kind
    assert words in str(error)
    assert str(error).startswith("The transaction of 'app-0_0' ")
    assert ("look at the brokers" in str(error)) is (words == "look at the brokers")


PASSING = [
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
]


class Leader:
    """Answers after some refusals."""

    def __init__(self, *refusals: int) -> None:
        self._refusals = list(refusals)
        self.asked: list[float] = []

    def __call__(self, left_s: float) -> str:
        self.asked.append(left_s)
        if self._refusals:
            raise KafkaException(KafkaError(self._refusals.pop(0)))
        return "answer"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider.kafka.broker_error._PAUSE_S", 0.0)


@pytest.mark.parametrize("code", PASSING, ids=[KafkaError(code).name() for code in PASSING])
def test_leader_that_changes_is_asked_again(code: int) -> None:
    leader = Leader(code, code)

    assert ask_leader(leader, 60.0) == "answer"
    assert len(leader.asked) == 3
    assert 60.0 == leader.asked[0] > leader.asked[1] > leader.asked[2] > 0


def test_leader_that_does_not_come_ends_the_request_at_its_deadline() -> None:
    leader = Leader(*[KafkaError.NOT_LEADER_FOR_PARTITION] * 2)

    with pytest.raises(KafkaException, match="NOT_LEADER"):
        ask_leader(leader, 0.0)
    assert leader.asked == [0.0]


def test_any_other_answer_is_the_answer() -> None:
    leader = Leader(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        ask_leader(leader, 60.0)
    assert len(leader.asked) == 1


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

    (said,) = [record.getMessage() for record in caplog.records if record.name == "airflow_provider.kafka.broker_error"]
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

    monkeypatch.setattr("airflow_provider.kafka.broker_error._AGAIN_S", 0.0)
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
