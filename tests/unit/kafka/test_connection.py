from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from tests.certificates import Authority

PASSWORD = 'pass"word\\with $igns'
OAUTH = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_username": "user",
    "sasl_password": PASSWORD,
}
FILE = __file__
"""One that is there."""
PLAIN = KafkaConnection("one:9092,two:9092")
SASL = KafkaConnection(
    "one:9093",
    security_protocol="SASL_SSL",
    sasl_mechanism="SCRAM-SHA-512",
    sasl_username="user",
    sasl_password=PASSWORD,
    ssl_ca_location=FILE,
)
SASL_PLAINTEXT = KafkaConnection(
    "one:9092",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_username="user",
    sasl_password=PASSWORD,
)
SSL = KafkaConnection("one:9093", security_protocol="SSL", ssl_ca_location=FILE)

MUTUAL = KafkaConnection(
    "one:9093",
    security_protocol="SSL",
    ssl_ca_location=FILE,
    ssl_certificate_location=FILE,
    ssl_key_location=FILE,
    ssl_key_password=PASSWORD,
)
TOKENS = KafkaConnection(
    "one:9093",
    security_protocol="SASL_SSL",
    sasl_mechanism="OAUTHBEARER",
    sasl_username="user",
    sasl_password=PASSWORD,
    sasl_oauthbearer_token_endpoint_url="https://tokens/token",
    sasl_oauthbearer_scope="streams",
    sasl_oauthbearer_extensions="logicalCluster=lkc-1, identityPoolId=pool-1",
    https_ca_location=FILE,
)

EACH = pytest.mark.parametrize(
    "connection",
    [PLAIN, SASL, SASL_PLAINTEXT, SSL, MUTUAL, TOKENS],
    ids=["plain", "sasl-ssl", "sasl-plaintext", "ssl", "mutual", "tokens"],
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"bootstrap_servers": " "}, "No bootstrap servers", id="no-servers"),
        pytest.param(
            {"sasl_mechanism": "SCRAM-SHA-512"},
            "never sent with the security protocol PLAINTEXT",
            id="mechanism-without-sasl",
        ),
        pytest.param({"sasl_username": "u", "sasl_password": "p"}, "never sent", id="password-without-sasl"),
        pytest.param({"ssl_ca_location": "/ca.pem"}, "Nothing is encrypted", id="ca-without-tls"),
        pytest.param({"security_protocol": "TLS"}, "'TLS' is not one of PLAINTEXT, SSL", id="unknown-protocol"),
        pytest.param({"security_protocol": "SASL_SSL"}, "mechanism None is not one of", id="sasl-without-mechanism"),
        pytest.param(
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "'GSSAPI' is not one of", id="kerberos"
        ),
        pytest.param(
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u"},
            "needs a user name and a password",
            id="sasl-without-password",
        ),
        pytest.param(
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_password": PASSWORD},
            "needs a user name and a password",
            id="sasl-without-user",
        ),
        pytest.param(
            {"security_protocol": "SSL", "ssl_certificate_location": "/me.pem", "ssl_key_password": PASSWORD},
            "set ssl_key_location on the connection",
            id="certificate-without-key",
        ),
        pytest.param(
            {"security_protocol": "SSL", "ssl_key_location": "/me.key", "ssl_key_password": PASSWORD},
            "set ssl_certificate_location on the connection",
            id="key-without-certificate",
        ),
        pytest.param(
            {"ssl_certificate_location": "/me.pem", "ssl_key_location": "/me.key"},
            "never shown with the security protocol PLAINTEXT",
            id="certificate-without-tls",
        ),
        pytest.param(
            {"sasl_oauthbearer_token_endpoint_url": None, **OAUTH},
            "needs sasl_oauthbearer_token_endpoint_url",
            id="no-url",
        ),
        pytest.param(
            {**OAUTH, "sasl_oauthbearer_token_endpoint_url": f"https://me:{PASSWORD}@tokens/"},
            "holds no login",
            id="login-in-the-url",
        ),
        pytest.param(
            {**OAUTH, "sasl_oauthbearer_token_endpoint_url": "file:///etc/token"}, "begins with 'https://'", id="file"
        ),
        pytest.param(
            {**OAUTH, "sasl_oauthbearer_token_endpoint_url": "https://t", "sasl_oauthbearer_extensions": "pool"},
            "is not 'name=value",
            id="extensions",
        ),
    ],
)
def test_connection_that_no_client_could_use_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
        KafkaConnection(**{"bootstrap_servers": "one:9092", **arguments})

    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("connection", [SASL, MUTUAL, TOKENS], ids=["login", "key", "client"])
def test_password_is_never_shown(connection: KafkaConnection) -> None:
    for text in (repr(connection), str(connection)):
        assert PASSWORD not in text
        assert "$igns" not in text
    assert "user" in repr(SASL)


@pytest.mark.parametrize(
    ("connection", "config"),
    [
        pytest.param(
            PLAIN,
            {
                "bootstrap.servers": "one:9092,two:9092",
                "security.protocol": "PLAINTEXT",
                "log_level": "2",
                "reconnect.backoff.ms": "500",
            },
            id="plaintext",
        ),
        pytest.param(
            SSL,
            {
                "bootstrap.servers": "one:9093",
                "security.protocol": "SSL",
                "log_level": "2",
                "reconnect.backoff.ms": "500",
                "ssl.ca.location": FILE,
            },
            id="ssl",
        ),
        pytest.param(
            SASL,
            {
                "bootstrap.servers": "one:9093",
                "security.protocol": "SASL_SSL",
                "log_level": "2",
                "reconnect.backoff.ms": "500",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "user",
                "sasl.password": PASSWORD,
                "ssl.ca.location": FILE,
            },
            id="sasl-ssl",
        ),
        pytest.param(
            SASL_PLAINTEXT,
            {
                "bootstrap.servers": "one:9092",
                "security.protocol": "SASL_PLAINTEXT",
                "log_level": "2",
                "reconnect.backoff.ms": "500",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "user",
                "sasl.password": PASSWORD,
            },
            id="sasl-plaintext",
        ),
    ],
)
def test_client_config_has_what_librdkafka_needs_and_no_more(connection: KafkaConnection, config: Any) -> None:
    assert connection.to_client_config() == config


def test_spark_options_are_the_java_clients() -> None:
    assert PLAIN.to_spark_options() == {
        "kafka.bootstrap.servers": "one:9092,two:9092",
        "kafka.security.protocol": "PLAINTEXT",
    }
    assert SSL.to_spark_options() == {
        "kafka.bootstrap.servers": "one:9093",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": FILE,
    }


def test_jaas_configuration_quotes_what_would_end_its_strings() -> None:
    options = SASL.to_spark_options()

    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="user" password="pass\\"word\\\\with $igns";'
    )


def test_line_end_in_a_password_ends_no_string_of_the_jaas_configuration() -> None:
    options = dataclasses.replace(SASL, sasl_password="one\ntwo\r\\n").to_spark_options()

    assert options["kafka.sasl.jaas.config"].endswith('password="one\\ntwo\\r\\\\n";')


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_each_mechanism_has_its_login_module(mechanism: str, module: str) -> None:
    options = KafkaConnection(
        "one:9092", security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_username="u", sasl_password="p"
    ).to_spark_options()

    assert options["kafka.sasl.jaas.config"].startswith(f"org.apache.kafka.common.security.{module} required ")


def test_java_is_given_certificate_and_key_as_text_for_its_store(tmp_path: Path) -> None:
    mine = Authority(tmp_path).issue("me", PASSWORD)

    options = dataclasses.replace(
        MUTUAL, ssl_certificate_location=str(mine.certificate), ssl_key_location=str(mine.key)
    ).to_spark_options()

    key = options.pop("kafka.ssl.keystore.key")
    assert key.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert options == {
        "kafka.bootstrap.servers": "one:9093",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": FILE,
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": mine.certificate.read_text(),
    }


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["pkcs8", "openssl"])
@pytest.mark.parametrize("password", [None, PASSWORD], ids=["open", "encrypted"])
def test_java_is_given_a_key_of_any_form_in_its_own(form: PrivateFormat, password: str | None, tmp_path: Path) -> None:
    mine = Authority(tmp_path).issue("me", password, form)

    options = KafkaConnection(
        "one:9093",
        security_protocol="SSL",
        ssl_certificate_location=str(mine.certificate),
        ssl_key_location=str(mine.key),
        ssl_key_password=password,
    ).to_spark_options()

    assert options["kafka.ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----\n")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"ssl_key_password": "other"}, "no private key that can be read with a password", id="wrong"),
        pytest.param({"ssl_key_password": None}, "no private key that can be read without a password", id="none"),
        pytest.param({"ssl_key_location": "/no/such.key"}, "/no/such.key, which holds the client's private", id="gone"),
        pytest.param({"ssl_certificate_location": "/no.pem"}, "/no.pem, which holds the client's cert", id="no-cert"),
    ],
)
def test_key_that_cannot_be_read_is_a_typed_error_without_the_secret(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    mine = Authority(tmp_path).issue("me", PASSWORD)
    files = {"ssl_certificate_location": str(mine.certificate), "ssl_key_location": str(mine.key)}

    with pytest.raises(ConfigurationError, match=re.escape(words)) as refused:
        dataclasses.replace(MUTUAL, **{**files, **changes}).to_spark_options()

    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None or PASSWORD not in str(refused.value.__cause__)


@EACH
def test_file_that_is_not_here_is_named(connection: KafkaConnection) -> None:
    files = [name for name, value in dataclasses.asdict(connection).items() if value == FILE]

    for name in files:
        changed: dict[str, Any] = {name: "/nowhere.pem"}
        with pytest.raises(ConfigurationError, match=r"/nowhere\.pem, which holds"):
            dataclasses.replace(connection, **changed).to_client_config()


def test_java_exchanges_the_clients_credentials_for_tokens() -> None:
    assert TOKENS.to_spark_options() == {
        "kafka.bootstrap.servers": "one:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="user" clientSecret="pass\\"word\\\\with $igns" scope="streams" '
            f'ssl.truststore.type="PEM" ssl.truststore.location="{FILE}" '
            'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";'
        ),
        "kafka.sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
    }


def test_java_may_ask_the_endpoint_of_the_connection_for_tokens_and_no_other() -> None:
    assert TOKENS.to_java_options() == ["-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://tokens/token"]
    assert SASL.to_java_options() == SSL.to_java_options() == []
