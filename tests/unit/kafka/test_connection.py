from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection

PASSWORD = 'pass"word\\with $igns'
PLAIN = KafkaConnection("one:9092,two:9092")
SASL = KafkaConnection(
    "one:9093",
    security_protocol="SASL_SSL",
    sasl_mechanism="SCRAM-SHA-512",
    sasl_username="user",
    sasl_password=PASSWORD,
    ssl_ca_location="/etc/ca.pem",
)
SASL_PLAINTEXT = KafkaConnection(
    "one:9092",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_username="user",
    sasl_password=PASSWORD,
    ssl_ca_location="/etc/ca.pem",
)
SSL = KafkaConnection("one:9093", security_protocol="SSL", ssl_ca_location="/etc/ca.pem")

EACH = pytest.mark.parametrize(
    "connection", [PLAIN, SASL, SASL_PLAINTEXT, SSL], ids=["plain", "sasl-ssl", "sasl-plaintext", "ssl"]
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"bootstrap_servers": " "}, "No bootstrap servers", id="no-servers"),
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
    ],
)
def test_connection_that_no_client_could_use_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
        KafkaConnection(**{"bootstrap_servers": "one:9092", **arguments})

    assert PASSWORD not in str(caught.value)


def test_password_is_never_shown() -> None:
    assert "word" not in repr(SASL)
    assert "word" not in str(SASL)
    assert "user" in repr(SASL)


@pytest.mark.parametrize(
    ("connection", "config"),
    [
        pytest.param(
            PLAIN,
            {"bootstrap.servers": "one:9092,two:9092", "security.protocol": "PLAINTEXT", "log_level": "2"},
            id="plaintext",
        ),
        pytest.param(
            SSL,
            {
                "bootstrap.servers": "one:9093",
                "security.protocol": "SSL",
                "log_level": "2",
                "ssl.ca.location": "/etc/ca.pem",
            },
            id="ssl",
        ),
        pytest.param(
            SASL,
            {
                "bootstrap.servers": "one:9093",
                "security.protocol": "SASL_SSL",
                "log_level": "2",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "user",
                "sasl.password": PASSWORD,
                "ssl.ca.location": "/etc/ca.pem",
            },
            id="sasl-ssl",
        ),
        pytest.param(
            SASL_PLAINTEXT,
            {
                "bootstrap.servers": "one:9092",
                "security.protocol": "SASL_PLAINTEXT",
                "log_level": "2",
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
        "kafka.ssl.truststore.location": "/etc/ca.pem",
    }


def test_jaas_configuration_quotes_what_would_end_its_strings() -> None:
    options = SASL.to_spark_options()

    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="user" password="pass\\"word\\\\with $igns";'
    )


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


@EACH
def test_reads_back_the_same_with_its_password(connection: KafkaConnection) -> None:
    assert KafkaConnection.from_json(connection.to_json()) == connection
