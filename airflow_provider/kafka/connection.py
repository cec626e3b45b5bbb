"""How to reach a Kafka cluster: one value, turned into each client's own words at its edge."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass, field

import msgspec

from airflow_provider.errors import ConfigurationError

__all__ = ["KafkaConnection", "SecurityProtocol"]

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JAAS_MODULE = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

SecurityProtocol = str


@dataclass(frozen=True)
class KafkaConnection:
    """A Kafka cluster's address and credentials.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        security_protocol: ``PLAINTEXT`` (default), ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
        sasl_mechanism: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``; needed with a SASL protocol.
        sasl_username: needed with a SASL protocol.
        sasl_password: needed with a SASL protocol; never in ``repr``.
        ssl_ca_location: path of a PEM file with the authorities to trust; None takes the system's.

    Raises:
        ConfigurationError: a value is not one of the above, or credentials are missing.
    """

    bootstrap_servers: str
    _: KW_ONLY
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_ca_location: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no client could use."""
        if not self.bootstrap_servers.strip():
            raise ConfigurationError("No bootstrap servers: set 'host:port[,host:port]' on the connection.")
        if self.security_protocol not in _PROTOCOLS:
            raise ConfigurationError(
                f"Security protocol {self.security_protocol!r} is not one of {', '.join(_PROTOCOLS)}: "
                "correct it on the connection."
            )
        if self.security_protocol.startswith("SASL"):
            if self.sasl_mechanism not in _JAAS_MODULE:
                raise ConfigurationError(
                    f"SASL mechanism {self.sasl_mechanism!r} is not one of {', '.join(_JAAS_MODULE)}: "
                    "correct it on the connection."
                )
            if not self.sasl_username or not self.sasl_password:
                raise ConfigurationError(
                    "A SASL protocol needs a user name and a password: set them on the connection."
                )

    def to_client_config(self) -> dict[str, str]:
        """Librdkafka's configuration for this cluster (for confluent-kafka), whose clients log critical lines alone.

        While brokers are away each client would write some lines a second. What matters comes as an error; the reason
        behind it, and a line for the log, give `ConnectionErrors`.
        """
        config = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
            "log_level": "2",
        }
        if self.security_protocol.startswith("SASL"):
            config["sasl.mechanism"] = str(self.sasl_mechanism)
            config["sasl.username"] = str(self.sasl_username)
            config["sasl.password"] = str(self.sasl_password)
        if self.ssl_ca_location and self.security_protocol.endswith("SSL"):
            config["ssl.ca.location"] = self.ssl_ca_location
        return config

    def to_spark_options(self) -> dict[str, str]:
        """Options of Spark's Kafka source for this cluster (the Java client's words behind ``kafka.``)."""
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "kafka.security.protocol": self.security_protocol,
        }
        if self.security_protocol.startswith("SASL"):
            user, password = (_jaas_quoted(str(v)) for v in (self.sasl_username, self.sasl_password))
            module = _JAAS_MODULE[str(self.sasl_mechanism)]
            options["kafka.sasl.mechanism"] = str(self.sasl_mechanism)
            options["kafka.sasl.jaas.config"] = f"{module} required username={user} password={password};"
        if self.ssl_ca_location and self.security_protocol.endswith("SSL"):
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.location"] = self.ssl_ca_location
        return options

    def to_json(self) -> bytes:
        """With the password: for a file that only its owner may read, never for a log or an argument."""
        return msgspec.json.encode(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, data: bytes) -> KafkaConnection:
        """The inverse of `to_json`."""
        return msgspec.json.decode(data, type=cls)


def _jaas_quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
