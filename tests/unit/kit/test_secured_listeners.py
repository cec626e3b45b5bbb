from __future__ import annotations

import dataclasses
from pathlib import Path

from airflow_provider.kit.settings import BrokerSettings
from tests.secured_listeners import SecuredListener, with_listeners

SCRAM = SecuredListener(
    name="SCRAM",
    port=9094,
    protocol="SASL_SSL",
    mechanism="SCRAM-SHA-512",
    users={"me": "hunter2"},
    keystore=Path("/broker.pem"),
)
PLAIN = dataclasses.replace(SCRAM, name="PLAIN", port=9095, mechanism="PLAIN", protocol="SASL_PLAINTEXT", keystore=None)
BROKER = BrokerSettings(directory=Path("/kafka"), port=9092, controller_port=9093)
SECURED = with_listeners(BROKER, (SCRAM, PLAIN))


def test_each_is_a_listener_on_loopback_with_its_protocol() -> None:
    properties = SECURED.to_properties(Path("/d"))

    doors = "SCRAM://127.0.0.1:9094,PLAIN://127.0.0.1:9095"
    assert properties["advertised.listeners"] == f"CLIENT://127.0.0.1:9092,{doors}"
    assert properties["listeners"] == f"CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093,{doors}"
    assert properties["listener.security.protocol.map"] == (
        "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,SCRAM:SASL_SSL,PLAIN:SASL_PLAINTEXT"
    )


def test_users_of_scram_are_stored_in_the_cluster_and_those_of_plain_in_the_properties() -> None:
    assert dict(SCRAM.scram_users) == {"me": "hunter2"}
    assert not PLAIN.scram_users
    assert "hunter2" not in str(SCRAM.to_properties())
    assert 'user_me="hunter2"' in PLAIN.to_properties()["listener.name.plain.plain.sasl.jaas.config"]


def test_password_is_never_shown() -> None:
    assert "hunter2" not in repr(SECURED)
    assert "hunter2" not in repr(PLAIN)


def test_certificate_of_the_client_names_its_user() -> None:
    mutual = SecuredListener(
        name="MTLS", port=1, protocol="SSL", keystore=Path("/broker.pem"), client_authorities=Path("/ca.pem")
    )

    properties = mutual.to_properties()

    assert properties["listener.name.mtls.ssl.client.auth"] == "required"
    assert properties["listener.name.mtls.ssl.truststore.location"] == "/ca.pem"
    assert properties["listener.name.mtls.ssl.principal.mapping.rules"].startswith("RULE:^CN=")


def test_broker_may_fetch_the_keys_of_tokens_from_where_it_was_told() -> None:
    tokens = SecuredListener(
        name="TOKENS", port=1, protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", jwks_url="http://127.0.0.1:8/jwks"
    )

    options = with_listeners(BROKER, (tokens,)).to_java_options()

    assert "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=http://127.0.0.1:8/jwks" in options
    assert not any("oauthbearer" in option for option in SECURED.to_java_options())


def test_acls_hold_for_who_logs_in() -> None:
    assert "authorizer.class.name" not in SECURED.to_properties(Path("/d"))
    properties = with_listeners(BROKER, (SCRAM, PLAIN), acls=True).to_properties(Path("/d"))

    assert properties["super.users"] == "User:ANONYMOUS"
    assert properties["authorizer.class.name"].endswith(".StandardAuthorizer")
