"""Doors of a broker at which clients have to say who they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from airflow_provider.kafka.connection import jaas_config
from airflow_provider.kit.ports import LOOPBACK
from airflow_provider.kit.settings import BrokerSettings

_OF_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredListener:
    """One more listener of a broker, on loopback.

    Who comes is the user of that name for the ACLs: the one who logged in, or the CN of the client's certificate.

    Args:
        protocol: ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
        mechanism: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512`` or ``OAUTHBEARER``; needed with a SASL protocol.
        users: by name the password, for PLAIN and SCRAM; never in ``repr``. Those of SCRAM are kept in the cluster.
        keystore: PEM file with the broker's private key (PKCS 8) and its certificate; needed with an SSL protocol.
        client_authorities: PEM file with the authorities of the clients' certificates; None asks for none.
        jwks_url: for OAUTHBEARER: where the keys are that sign tokens.
        audience: for OAUTHBEARER: what a token has to be for.
    """

    name: str
    port: int
    protocol: str
    mechanism: str | None = None
    users: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    keystore: Path | None = None
    client_authorities: Path | None = None
    jwks_url: str | None = None
    audience: str | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What a client is given to connect."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def scram_users(self) -> Mapping[str, str]:
        """Those that are to be stored in the cluster, by name the password."""
        return self.users if (self.mechanism or "").startswith("SCRAM-") else MappingProxyType({})

    def to_properties(self) -> dict[str, str]:
        """As Kafka's `server.properties`, with passwords."""
        properties: dict[str, str] = {}
        if self.protocol.endswith("SSL"):
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        if self.client_authorities is not None:
            properties |= {
                "ssl.client.auth": "required",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.client_authorities),
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            }
        if self.mechanism is not None:
            properties["sasl.enabled.mechanisms"] = self.mechanism
            known = {f"user_{name}": password for name, password in self.users.items()}
            options = known if self.mechanism == "PLAIN" else {}
            properties[f"{self.mechanism.lower()}.sasl.jaas.config"] = jaas_config(self.mechanism, options)
        if self.jwks_url is not None:
            properties["oauthbearer.sasl.server.callback.handler.class"] = _OF_TOKENS
            properties["sasl.oauthbearer.jwks.endpoint.url"] = self.jwks_url
        if self.audience is not None:
            properties["sasl.oauthbearer.expected.audience"] = self.audience
        return {f"listener.name.{self.name.lower()}.{name}": value for name, value in properties.items()}


def with_listeners(settings: BrokerSettings, doors: Sequence[SecuredListener], acls: bool = False) -> BrokerSettings:
    """The same broker with more doors.

    Args:
        acls: whether who has a name may do only what ACLs allow; who has none, as at the plain port, may do all.
    """
    served = "".join(f",{door.name}://{door.bootstrap_servers}" for door in doors)
    plain = settings.to_properties(Path())
    more = {
        "listeners": plain["listeners"] + served,
        "advertised.listeners": plain["advertised.listeners"] + served,
        "listener.security.protocol.map": plain["listener.security.protocol.map"]
        + "".join(f",{door.name}:{door.protocol}" for door in doors),
    }
    for door in doors:
        more |= door.to_properties()
    if acls:
        more["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        more["super.users"] = "User:ANONYMOUS"
    urls = ",".join(sorted({door.jwks_url for door in doors if door.jwks_url}))
    allowed = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}",) if urls else ()
    return dataclasses.replace(
        settings,
        overrides=(*settings.overrides, *more.items()),
        java_options=(*settings.java_options, *allowed),
    )


_ITERATIONS: Final = 4096
"""The fewest that SCRAM knows, and what Kafka's own tools take."""


def store_scram_users(bootstrap_servers: str, doors: Iterable[SecuredListener], timeout_s: float = 60.0) -> None:
    """Store the users of all doors with SCRAM in the cluster."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})  # its futures end with it
    # A request for each: no user may be in one twice, not even with two mechanisms.
    for door in doors:
        if door.scram_users:
            credential = ScramCredentialInfo(ScramMechanism[str(door.mechanism).replace("-", "_")], _ITERATIONS)
            stored = admin.alter_user_scram_credentials(
                [
                    UserScramCredentialUpsertion(name, credential, password.encode())
                    for name, password in door.scram_users.items()
                ]
            )
            for done in stored.values():
                done.result(timeout_s)
