"""A door of the kit's broker at which clients have to say who they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from airflow_provider.kafka.jaas import jaas_config
from airflow_provider.kit.ports import LOOPBACK

_OF_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredListener:
    """One more listener of a broker, on loopback.

    Who comes is the user of that name for the ACLs: the one who logged in, or the CN of the client's certificate.

    Args:
        name: letters; of this listener alone.
        port: where clients connect.
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
