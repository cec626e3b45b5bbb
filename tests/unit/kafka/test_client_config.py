from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.common.files import create_private_file
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.client_config import connection_from_config, connection_from_file
from airflow_provider.kafka.connection import KafkaConnection

SECRET = "hunter2"
FILE = __file__
"""One that is there."""
SASL = {
    "bootstrap.servers": "a:9093,b:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": SECRET,
    "ssl.ca.location": FILE,
}
TRANSLATED = KafkaConnection(
    "a:9093,b:9093",
    security_protocol="SASL_SSL",
    sasl_mechanism="SCRAM-SHA-512",
    sasl_username="me",
    sasl_password=SECRET,
    ssl_ca_location=FILE,
)


def test_address_and_credentials_are_carried_over() -> None:
    found = connection_from_config(SASL, "it")

    assert found == TRANSLATED
    assert SECRET not in repr(found)
    # The way back to a client is the configuration that was given.
    assert found.to_client_config().items() >= SASL.items()


def test_other_spellings_of_librdkafka_mean_the_same() -> None:
    spelt = {name: value for name, value in SASL.items() if name not in ("bootstrap.servers", "sasl.mechanism")}
    spelt |= {"metadata.broker.list": "a:9093,b:9093", "sasl.mechanisms": "SCRAM-SHA-512"}

    assert connection_from_config({**spelt, "security.protocol": "sasl_ssl"}, "it") == TRANSLATED


def test_clients_certificate_is_carried_over() -> None:
    mutual = {"ssl.certificate.location": FILE, "ssl.key.location": FILE, "ssl.key.password": SECRET}

    found = connection_from_config(SASL | mutual, "it")

    assert found == dataclasses.replace(
        TRANSLATED, ssl_certificate_location=FILE, ssl_key_location=FILE, ssl_key_password=SECRET
    )
    assert SECRET not in repr(found)
    assert found.to_client_config().items() >= (SASL | mutual).items()


@pytest.mark.parametrize("words", ["sasl.oauthbearer.", "sasl.oauthbearer.client.credentials."])
def test_credentials_of_a_client_are_exchanged_for_tokens(words: str) -> None:
    oauth = {
        "bootstrap.servers": "a:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "OIDC",
        f"{words}client.id": "me",
        f"{words}client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
        "sasl.oauthbearer.scope": "streams",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
        "https.ca.location": FILE,
    }

    found = connection_from_config(oauth, "it")

    assert (found.sasl_username, found.sasl_password) == ("me", SECRET)
    assert SECRET not in repr(found)
    assert found.to_client_config() == {
        "bootstrap.servers": "a:9093",
        "security.protocol": "SASL_SSL",
        "log_level": "2",
        "reconnect.backoff.ms": "500",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
        "sasl.oauthbearer.scope": "streams",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
        "https.ca.location": FILE,
    }


@pytest.mark.parametrize(
    "more",
    [
        {"group.id": "team", "auto.offset.reset": "earliest", "enable.auto.commit": False},
        {"acks": "all", "enable.idempotence": True, "linger.ms": 5},
        {"error_cb": "team.callbacks.on_error", "session.timeout.ms": 6000},
        {"ssl.endpoint.identification.algorithm": "https", "enable.ssl.certificate.verification": True},
    ],
    ids=["consumer", "producer", "callbacks", "defaults-of-tls"],
)
def test_what_says_nothing_of_the_way_to_the_cluster_is_left_aside(more: dict[str, Any]) -> None:
    assert connection_from_config({**SASL, **more}, "it") == TRANSLATED


def test_standard_authorities_are_those_of_no_setting() -> None:
    assert connection_from_config({**SASL, "ssl.ca.location": "probe"}, "it").ssl_ca_location is None


@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.pem",
        "ssl.keystore.password",
        "ssl.ca.pem",
        "sasl.oauthbearer.config",
        "sasl.kerberos.keytab",
        "oauth_cb",
        "socket.nagle.disable",
        "broker.address.family",
        "no.such.setting",
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_its_name_in_one_line(name: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        connection_from_config({**SASL, name: SECRET}, "Connection 'team'")

    message = str(refused.value)
    assert message.startswith(f"Connection 'team' sets {name}, which cannot be carried over")
    assert "\n" not in message
    assert SECRET not in message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param({**SASL, "enable.ssl.certificate.verification": False}, "sets enable.ssl", id="no-verification"),
        pytest.param({**SASL, "ssl.endpoint.identification.algorithm": "none"}, "sets ssl.endpoint", id="any-host"),
        pytest.param({**SASL, "sasl.mechanisms": "PLAIN"}, "sets sasl.mechanisms", id="twice"),
        pytest.param(
            {**SASL, "sasl.oauthbearer.client.secret": SECRET}, "sets sasl.oauthbearer.client.secret", id="two-secrets"
        ),
        pytest.param({**SASL, "sasl.oauthbearer.method": "default"}, "sets sasl.oauthbearer.method", id="own-tokens"),
        pytest.param({**SASL, "sasl.password": 1234567}, "sets sasl.password", id="no-text"),
        pytest.param({**SASL, "sasl.mechanism": "GSSAPI"}, "SASL mechanism 'GSSAPI' is not one of", id="kerberos"),
        pytest.param({"security.protocol": "SSL"}, "has no 'bootstrap.servers'", id="no-servers"),
        pytest.param({}, "has no 'bootstrap.servers'", id="empty"),
    ],
)
def test_what_is_not_enough_or_less_safe_is_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refused:
        connection_from_config(config, "it")

    assert SECRET not in str(refused.value)
    assert "1234567" not in str(refused.value)


def test_security_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.touch(0o600)
    file.write_text(
        "# the cluster\nbootstrap.servers = one:9093,two:9093\n\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.username=me\nsasl.password=a=b\n"
    )

    assert connection_from_file(file) == KafkaConnection(
        "one:9093,two:9093",
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="me",
        sasl_password="a=b",
    )
    assert connection_from_file(file, "three:1").bootstrap_servers == "three:1"


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x0b", "\x1c", "\x0c"])
def test_password_may_hold_what_some_take_for_the_end_of_a_line(odd: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.touch(0o600)
    lines = ["bootstrap.servers=one:1", "security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "sasl.username=me"]
    file.write_text("\r\n".join([*lines, f"sasl.password=a{odd}ssl.ca.location=/evil{odd}"]) + "\r\n", encoding="utf-8")

    found = connection_from_file(file)

    assert (found.sasl_password, found.ssl_ca_location) == (f"a{odd}ssl.ca.location=/evil{odd}", None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("sasl.pasword=hunter2", "Line 1 of"),
        ("security.protocol=SSL", "no line bootstrap.servers=host:port"),
    ],
    ids=["missing", "unknown", "no-servers"],
)
def test_file_that_says_nothing_of_use_is_refused_without_showing_it(
    content: str | None, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_text(content)

    with pytest.raises(ConfigurationError, match=words) as refused:
        connection_from_file(file)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("mode", "refused"), [(0o600, False), (0o440, False), (0o644, True)])
def test_password_that_everybody_may_read_is_refused(tmp_path: Path, mode: int, refused: bool) -> None:
    file = tmp_path / "kafka.properties"
    create_private_file(
        file,
        b"bootstrap.servers=h:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n",
    )
    file.chmod(mode)

    if refused:
        with pytest.raises(ConfigurationError, match=r"holds a password, and every user of this host.*chmod o-r"):
            connection_from_file(file)
    else:
        assert connection_from_file(file).sasl_password == "p"
