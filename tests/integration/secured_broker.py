"""A broker with a door for each way of logging in, and the connection of one user by each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.ports import free_ports
from tests.brokers import settings_of_broker
from tests.certificates import Authority
from tests.secured_listeners import SecuredListener, store_scram_users, with_listeners
from tests.token_server import TokenServer

USER: Final = "app"
PASSWORD: Final = 'pass"word\\ with {signs} and ü'
KEY_PASSWORD: Final = "password of the key"
CLIENT_SECRET: Final = "secret-of-the-client"
TOKENS_BY_TLS: Final = "OAUTHBEARER, tokens by https"
SECRETS: Final = (PASSWORD, KEY_PASSWORD, CLIENT_SECRET)

_START_S: Final = 600.0
_USERS: Final = {USER: PASSWORD}


@dataclass(frozen=True)
class SecuredBroker:
    """The broker, and who may come.

    Args:
        bootstrap_servers: where nobody logs in and every right is had.
        connections: by name of the door, of the user `USER`; ``TLS`` alone does not know who comes. And
            `TOKENS_BY_TLS`, by the door of ``OAUTHBEARER``.
        tokens: the server of tokens.
        authority: signed what the broker shows, and the clients' certificates.
    """

    bootstrap_servers: str
    connections: Mapping[str, KafkaConnection]
    tokens: TokenServer
    authority: Authority

    @classmethod
    @contextmanager
    def running(cls, folder: Path, acls: bool = False) -> Iterator[SecuredBroker]:
        authority = Authority(folder / "certificates")
        client = authority.issue(USER, KEY_PASSWORD)
        *ports, secured_port, plain_port = free_ports(8)
        tokens = TokenServer(
            (secured_port, plain_port), authority.issue("tokens").both, client_id=USER, client_secret=CLIENT_SECRET
        )
        keystore = authority.issue("broker").both
        tls: dict[str, Any] = {"keystore": keystore}
        doors = [
            SecuredListener(name="TLS", port=ports[0], protocol="SSL", **tls),
            SecuredListener(name="MTLS", port=ports[1], protocol="SSL", client_authorities=authority.file, **tls),
            _door("PLAIN", ports[2], "SASL_SSL", users=_USERS, **tls),
            _door("SCRAM-SHA-256", ports[3], "SASL_PLAINTEXT", users=_USERS),
            _door("SCRAM-SHA-512", ports[4], "SASL_SSL", users=_USERS, **tls),
            _door("OAUTHBEARER", ports[5], "SASL_SSL", jwks_url=tokens.jwks_url, audience="brokers", **tls),
        ]
        broker = EmbeddedBroker(with_listeners(settings_of_broker(folder / "kafka"), doors, acls))
        connections = {door.mechanism or door.name: _connection(door, authority) for door in doors}
        connections["MTLS"] = dataclasses.replace(
            connections["MTLS"],
            ssl_certificate_location=str(client.certificate),
            ssl_key_location=str(client.key),
            ssl_key_password=KEY_PASSWORD,
        )
        connections["OAUTHBEARER"] = dataclasses.replace(
            connections["TLS"],
            bootstrap_servers=connections["OAUTHBEARER"].bootstrap_servers,
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_username=USER,
            sasl_password=CLIENT_SECRET,
            sasl_oauthbearer_token_endpoint_url=tokens.plain_token_url,
            sasl_oauthbearer_scope="streams",
        )
        connections[TOKENS_BY_TLS] = dataclasses.replace(
            connections["OAUTHBEARER"],
            sasl_oauthbearer_token_endpoint_url=tokens.token_url,
            https_ca_location=str(authority.file),
        )
        with tokens.running():
            try:
                broker.start(_START_S)
                store_scram_users(broker.bootstrap_servers, doors)
                yield cls(broker.bootstrap_servers, connections, tokens, authority)
            finally:
                broker.stop()


def _door(mechanism: str, port: int, protocol: str, **others: Any) -> SecuredListener:
    return SecuredListener(name=mechanism.replace("-", ""), port=port, protocol=protocol, mechanism=mechanism, **others)


def _connection(door: SecuredListener, authority: Authority) -> KafkaConnection:
    login: dict[str, str] = {}
    if door.mechanism not in (None, "OAUTHBEARER"):
        login = {"sasl_mechanism": str(door.mechanism), "sasl_username": USER, "sasl_password": PASSWORD}
    return KafkaConnection(
        door.bootstrap_servers,
        security_protocol=door.protocol if login else "SSL",
        ssl_ca_location=str(authority.file) if door.protocol.endswith("SSL") else None,
        **login,
    )
