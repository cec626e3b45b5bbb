from __future__ import annotations

import dataclasses
from pathlib import Path

from airflow_provider.kit.settings import BrokerSettings, SecuredListener

SETTINGS = BrokerSettings(directory=Path("/kafka"), port=9092, controller_port=9093)


def test_listens_on_loopback_alone() -> None:
    properties = SETTINGS.to_properties(Path("/kafka/data"))

    assert properties["listeners"] == "CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert properties["advertised.listeners"] == f"CLIENT://{SETTINGS.bootstrap_servers}"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert properties["log.dirs"] == "/kafka/data"


def test_makes_no_topics_by_itself() -> None:
    assert SETTINGS.to_properties(Path("/d"))["auto.create.topics.enable"] == "false"


def test_every_replication_factor_fits_one_node() -> None:
    properties = SETTINGS.to_properties(Path("/d"))

    assert {v for k, v in properties.items() if "replication.factor" in k or "min.i" in k} == {"1"}


def test_overrides_take_precedence() -> None:
    settings = BrokerSettings(
        directory=Path("/kafka"), port=1, controller_port=2, overrides=(("num.io.threads", "1"), ("new.key", "x"))
    )

    properties = settings.to_properties(Path("/d"))

    assert (properties["num.io.threads"], properties["new.key"]) == ("1", "x")


def test_heap_is_given_in_whole_mebibytes() -> None:
    settings = BrokerSettings(directory=Path("/d"), port=1, controller_port=2, heap_bytes=200 * 1024 * 1024 + 5)

    assert settings.to_java_options()[:2] == ["-Xmx200m", "-Xms200m"]


def test_ports_of_two_brokers_differ(tmp_path: Path) -> None:
    one, two = BrokerSettings.on_free_ports(tmp_path), BrokerSettings.on_free_ports(tmp_path, node_id=2)

    assert len({one.port, one.controller_port, two.port, two.controller_port}) == 4
    assert two.node_id == 2


SCRAM = SecuredListener(
    name="SCRAM",
    port=9094,
    protocol="SASL_SSL",
    mechanism="SCRAM-SHA-512",
    users={"me": "hunter2"},
    keystore=Path("/broker.pem"),
)
PLAIN = dataclasses.replace(SCRAM, name="PLAIN", port=9095, mechanism="PLAIN", protocol="SASL_PLAINTEXT", keystore=None)
SECURED = BrokerSettings(directory=Path("/kafka"), port=9092, controller_port=9093, secured_listeners=(SCRAM, PLAIN))


def test_each_is_a_listener_on_loopback_with_its_protocol() -> None:
    properties = SECURED.to_properties(Path("/d"))

    assert properties["advertised.listeners"] == (
        "CLIENT://127.0.0.1:9092,SCRAM://127.0.0.1:9094,PLAIN://127.0.0.1:9095"
    )
    assert properties["listeners"] == f"{properties['advertised.listeners']},CONTROLLER://127.0.0.1:9093"
    assert properties["listener.security.protocol.map"] == (
        "CLIENT:PLAINTEXT,SCRAM:SASL_SSL,PLAIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    )


def test_users_of_scram_are_stored_in_the_cluster_and_those_of_plain_in_the_properties() -> None:
    assert dict(SCRAM.scram_users) == {"me": "hunter2"}
    assert not PLAIN.scram_users
    assert "hunter2" not in str(SCRAM.to_properties())
    assert 'user_me="hunter2"' in PLAIN.to_properties()["listener.name.plain.plain.sasl.jaas.config"]


def test_password_is_never_shown() -> None:
    assert "hunter2" not in repr(SECURED)
    assert "me" in SECURED.secured_listeners[0].users


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

    options = dataclasses.replace(SECURED, secured_listeners=(tokens,)).to_java_options()

    assert "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=http://127.0.0.1:8/jwks" in options
    assert not any("oauthbearer" in option for option in SECURED.to_java_options())


def test_acls_hold_for_who_logs_in() -> None:
    assert "authorizer.class.name" not in SECURED.to_properties(Path("/d"))
    properties = dataclasses.replace(SECURED, acls=True).to_properties(Path("/d"))

    assert properties["super.users"] == "User:ANONYMOUS"
    assert properties["authorizer.class.name"].endswith(".StandardAuthorizer")
