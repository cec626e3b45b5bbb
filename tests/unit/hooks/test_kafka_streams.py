from __future__ import annotations

import json
import re
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.connection import KafkaConnection


def hook(monkeypatch: pytest.MonkeyPatch, **connection: Any) -> KafkaStreamsHook:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps({"conn_type": "kafkastreams", **connection}))
    return KafkaStreamsHook("kafka")


@pytest.mark.parametrize(
    ("connection", "servers"),
    [
        ({"host": "h", "port": 9092}, "h:9092"),
        ({"host": "h:9093"}, "h:9093"),
        ({"host": "h,i:9093", "port": 9092}, "h:9092,i:9093"),
        ({"host": "h", "port": 9092, "extra": {"bootstrap_servers": "a:1,b:2"}}, "a:1,b:2"),
    ],
    ids=["host and port", "port in host", "several hosts", "extra wins"],
)
def test_bootstrap_servers_are_found(monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any], servers: str) -> None:
    assert hook(monkeypatch, **connection).connection.bootstrap_servers == servers


def test_credentials_are_those_of_sasl(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "ssl_ca_location": "/ca.pem"}

    found = hook(monkeypatch, host="h", port=1, login="me", password="secret", extra=extra).connection

    assert (found.sasl_username, found.sasl_password, found.ssl_ca_location) == ("me", "secret", "/ca.pem")
    assert "secret" not in repr(found)


@pytest.mark.parametrize("separator", ["_", "."], ids=["fields", "librdkafka"])
def test_extras_are_named_as_fields_or_as_librdkafka_does(separator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {
        "security_protocol": "ssl",
        "ssl_ca_location": "/ca.pem",
        "ssl_certificate_location": "/me.pem",
        "ssl_key_location": "/me.key",
        "ssl_key_password": "secret",
    }
    named = {name.replace("_", separator): value for name, value in extra.items()}

    found = hook(monkeypatch, host="h", port=1, extra=named).connection

    assert found == KafkaConnection("h:1", **{**extra, "security_protocol": "SSL"})
    assert "secret" not in repr(found)


def test_login_and_password_are_the_clients_id_and_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": "https://tokens/token",
    }

    found = hook(monkeypatch, host="h", port=1, login="me", password="secret", extra=extra).connection

    config = found.to_client_config()
    assert (config["sasl.oauthbearer.client.id"], config["sasl.oauthbearer.client.secret"]) == ("me", "secret")


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"ssl_certfile": "/me.pem"}, "ssl_certfile"),
        ({"sasl_pasword": "hunter2"}, "sasl_pasword"),
        ({"group.id": "team"}, "group.id"),
        ({"enable_ssl_certificate_verification": False}, "enable_ssl_certificate_verification"),
        ({"ssl_ca_location": 1}, "ssl_ca_location"),
    ],
    ids=["other-word", "misspelt", "of-consumers", "less-safe", "no-text"],
)
def test_extra_that_is_not_known_is_refused_by_its_name(
    extra: dict[str, Any], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ConfigurationError, match=f"extras that are not known: {re.escape(named)}\\. Known are"
    ) as refused:
        _ = hook(monkeypatch, host="h", port=1, extra=extra).connection

    assert "hunter2" not in str(refused.value)


def test_fields_of_the_form_that_are_empty_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap_servers": "", "sasl_mechanism": None, "ssl_key_password": ""}

    assert hook(monkeypatch, host="h", port=1, extra=extra).connection == KafkaConnection("h:1")


def test_connection_of_the_apache_kafka_provider_serves_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "a:1,b:2", "group.id": "team"}
    given = {"conn_type": "kafka", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(given))

    assert KafkaStreamsHook("kafka_default").connection == KafkaConnection("a:1,b:2")


@pytest.mark.parametrize("conn_type", ["spark", "postgres", "kafka_streams", None])
def test_connection_of_another_type_is_refused_by_its_id_and_type(
    conn_type: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"conn_type": conn_type, "host": "spark-master", "port": 7077, "login": "me", "password": "hunter2"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(given))

    works, message = KafkaStreamsHook("spark_default").test_connection()

    assert not works
    assert message == (
        f"Connection 'spark_default' is of type {conn_type!r}, and names no Kafka cluster: use one of type "
        "'kafkastreams' or 'kafka', or correct its type."
    )


def test_what_such_a_connection_says_that_cannot_be_carried_over_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "a:1", "ssl.keystore.password": "hunter2"}
    given = {"conn_type": "kafka", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(given))

    works, message = KafkaStreamsHook("kafka_default").test_connection()

    assert not works
    assert message.startswith("Connection 'kafka_default' of type 'kafka' sets ssl.keystore.password, which cannot be")
    assert "hunter2" not in message


def test_extras_that_no_client_is_given_are_refused_together_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"security_protocol": "SSL", "ssl.keystore.password": "hunter2", "ssl_key_pem": "-----BEGIN"}

    works, message = hook(monkeypatch, host="h", port=1, extra=extra).test_connection()

    assert not works
    assert message.startswith(
        "Connection 'kafka' has extras that are not known: ssl.keystore.password, ssl_key_pem. Known are"
    )
    assert "hunter2" not in message
    assert "BEGIN" not in message


def test_connection_without_a_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="'kafka' names no bootstrap server"):
        _ = hook(monkeypatch).connection


def test_test_button_says_what_is_wrong_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    works, message = hook(monkeypatch, host="h", port=1, extra={"security_protocol": "SASL_SSL"}).test_connection()

    assert not works
    assert message.startswith("Connection 'kafka': SASL mechanism None is not one of")


def test_type_of_connection_can_be_the_scheme_of_a_uri() -> None:
    """Else Airflow warns each time that it hands the connection on."""
    assert re.fullmatch(r"[a-z][a-z0-9]*", KafkaStreamsHook.conn_type)
