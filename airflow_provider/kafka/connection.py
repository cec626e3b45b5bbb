"""How to reach a Kafka cluster: one value, turned into each client's own words at its edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from airflow_provider.errors import ConfigurationError


def read_private_key(file: str, password: str | None) -> str:
    """The key of a PEM file as Java takes it: PKCS 8, not encrypted. It is secret.

    Librdkafka takes keys that Java does not: of other forms (``BEGIN RSA PRIVATE KEY``), and encrypted as openssl does
    it today.

    Raises:
        ConfigurationError: it cannot be read, or not with this password.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    content = _read(file, "the client's private key")
    try:
        key = load_pem_private_key(content, password.encode() if password else None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        # The error of such a library may quote what it read.
        raise ConfigurationError(
            f"{file} holds no private key that can be read {'with' if password else 'without'} a password "
            f"({type(error).__name__}): name a PEM file with the client's key, and its password as ssl_key_password if "
            "it is encrypted."
        ) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def _read(file: str, what: str) -> bytes:
    """What a file holds; a client's own error, where it cannot be read, does not name it."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{file}, which holds {what}, cannot be read here ({error.strerror}): put it there on every host that "
            "connects to Kafka, readable for the user that runs there."
        ) from error


_PACKAGE: Final = "org.apache.kafka.common.security"

LOGIN_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
"""By SASL mechanism, the class that logs in by it."""


def jaas_config(mechanism: str, options: Mapping[str, str]) -> str:
    """One login, as the value of ``sasl.jaas.config``."""
    words = [f"{name}={_quoted(value)}" for name, value in options.items()]
    return f"{' '.join([LOGIN_MODULES[mechanism], 'required', *words])};"


def _quoted(value: str) -> str:
    # Java reads it with a StreamTokenizer, to which the end of a line is the end of a string.
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OAUTH: Final = "OAUTHBEARER"
_OAUTH_LOGIN: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


@dataclass(frozen=True)
class KafkaConnection:
    """A Kafka cluster's address and credentials.

    Files are PEM, and have to be on every host that connects.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        security_protocol: ``PLAINTEXT`` (default), ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
        sasl_mechanism: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512`` or ``OAUTHBEARER``; needed with a SASL protocol.
        sasl_username: needed with a SASL protocol. With OAUTHBEARER the client's id.
        sasl_password: needed with a SASL protocol; never in ``repr``. With OAUTHBEARER the client's secret.
        ssl_ca_location: path of a file with the authorities to trust; None takes the system's.
        ssl_certificate_location: path of the client's certificate, for mutual TLS, with what leads to an authority.
        ssl_key_location: path of the certificate's private key; needed with a certificate.
        sasl_oauthbearer_token_endpoint_url: where the client's id and secret are exchanged for tokens (OIDC); needed
            with OAUTHBEARER.
        sasl_oauthbearer_extensions: comma-separated ``name=value``, sent to the brokers with each token.
        https_ca_location: as `ssl_ca_location`, for the token endpoint.

    Raises:
        ConfigurationError: a value is not one of the above, or credentials are missing.
    """

    bootstrap_servers: str
    _: KW_ONLY
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_extensions: str | None = None
    https_ca_location: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no client could use."""
        if not self.bootstrap_servers.strip():
            raise ConfigurationError("No bootstrap servers: set 'host:port[,host:port]' on the connection.")
        if self.security_protocol not in _PROTOCOLS:
            raise ConfigurationError(
                f"Security protocol {self.security_protocol!r} is not one of {', '.join(_PROTOCOLS)}: "
                "correct it on the connection."
            )
        self._check_certificate()
        if self._by_sasl:
            self._check_login()
        elif self.sasl_mechanism or self.sasl_password:
            raise ConfigurationError(
                f"A password is never sent with the security protocol {self.security_protocol}, and who answers is not "
                "asked who it is: set SASL_SSL (or SASL_PLAINTEXT) on the connection, or remove the password and the "
                "SASL mechanism."
            )
        if self.ssl_ca_location and not self._by_tls:
            raise ConfigurationError(
                f"Nothing is encrypted, and no certificate verified, with the security protocol "
                f"{self.security_protocol}: set SSL or SASL_SSL on the connection, or remove ssl_ca_location."
            )

    @property
    def _by_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def _by_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    def _check_certificate(self) -> None:
        if bool(self.ssl_certificate_location) != bool(self.ssl_key_location):
            missing = "ssl_key_location" if self.ssl_certificate_location else "ssl_certificate_location"
            raise ConfigurationError(
                "A client's certificate and its private key are needed together, each as the path of a PEM file: set "
                f"{missing} on the connection, too."
            )
        if self.ssl_certificate_location and not self._by_tls:
            raise ConfigurationError(
                f"A client's certificate is never shown with the security protocol {self.security_protocol}: set SSL "
                "or SASL_SSL on the connection, or remove the certificate."
            )

    def _check_login(self) -> None:
        if self.sasl_mechanism not in LOGIN_MODULES:
            raise ConfigurationError(
                f"SASL mechanism {self.sasl_mechanism!r} is not one of {', '.join(LOGIN_MODULES)}: "
                "correct it on the connection."
            )
        if not self.sasl_username or not self.sasl_password:
            raise ConfigurationError(
                "A SASL protocol needs a user name and a password (with OAUTHBEARER: the client's id and secret): set "
                "them on the connection."
            )
        if self.sasl_mechanism != _OAUTH:
            return
        found = urlsplit(self.sasl_oauthbearer_token_endpoint_url or "")
        if found.scheme not in ("https", "http") or "@" in found.netloc:
            # What was found may hold a login.
            raise ConfigurationError(
                "OAUTHBEARER needs sasl_oauthbearer_token_endpoint_url, where the client's id and secret are exchanged "
                "for tokens; it begins with 'https://' or 'http://' and holds no login: set it on the connection."
            )
        _extensions(self.sasl_oauthbearer_extensions)

    def to_client_config(self) -> dict[str, str]:
        """Librdkafka's configuration for this cluster (for confluent-kafka), whose clients log critical lines alone.

        While brokers are away each client would write some lines a second. What matters comes as an error; the reason
        behind it, and a line for the log, give `ConnectionErrors`.

        Raises:
            ConfigurationError: a file that it names cannot be read here.
        """
        config = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
            "log_level": "2",
            # Its pause does not grow while connections are refused or hung up on (seen with 2.16): by the default, 100,
            # each client tries some twenty times a second, and a host's instances keep a broker from starting.
            "reconnect.backoff.ms": "500",
        }
        if self._by_sasl:
            config["sasl.mechanism"] = str(self.sasl_mechanism)
            if self.sasl_mechanism == _OAUTH:
                config |= self._oauth_client_config()
            else:
                config["sasl.username"] = str(self.sasl_username)
                config["sasl.password"] = str(self.sasl_password)
        if self._by_tls:
            config |= _given(
                {
                    "ssl.ca.location": self.ssl_ca_location,
                    "ssl.certificate.location": self.ssl_certificate_location,
                    "ssl.key.location": self.ssl_key_location,
                    "ssl.key.password": self.ssl_key_password,
                }
            )
        for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "https.ca.location"):
            if (file := config.get(name)) is not None:
                _read(file, name)
        return config

    def _oauth_client_config(self) -> dict[str, str]:
        return {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": str(self.sasl_username),
            "sasl.oauthbearer.client.secret": str(self.sasl_password),
        } | _given(
            {
                "sasl.oauthbearer.token.endpoint.url": self.sasl_oauthbearer_token_endpoint_url,
                "sasl.oauthbearer.scope": self.sasl_oauthbearer_scope,
                "sasl.oauthbearer.extensions": self.sasl_oauthbearer_extensions,
                "https.ca.location": self.https_ca_location,
            }
        )

    def to_spark_options(self) -> dict[str, str]:
        """Options of Spark's Kafka source for this cluster (Java's words behind ``kafka.``), secrets included.

        The client's certificate and key are read here, and are the options' values: Java takes them in one file alone,
        and keys in few forms.

        Raises:
            ConfigurationError: the client's certificate or key cannot be read here.
        """
        # Without brokers Java's pause between two tries grows to a second by itself; a longer one would add to an RTO.
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "kafka.security.protocol": self.security_protocol,
        }
        if self._by_sasl:
            options["kafka.sasl.mechanism"] = str(self.sasl_mechanism)
            options["kafka.sasl.jaas.config"] = jaas_config(str(self.sasl_mechanism), self._login_options())
        if self._by_sasl and self.sasl_mechanism == _OAUTH:
            options["kafka.sasl.login.callback.handler.class"] = _OAUTH_LOGIN
            options["kafka.sasl.oauthbearer.token.endpoint.url"] = str(self.sasl_oauthbearer_token_endpoint_url)
        if self._by_tls and self.ssl_ca_location:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.location"] = self.ssl_ca_location
        if self.ssl_certificate_location and self.ssl_key_location:
            options["kafka.ssl.keystore.type"] = "PEM"
            chain = _read(self.ssl_certificate_location, "the client's certificate")
            options["kafka.ssl.keystore.certificate.chain"] = chain.decode("ascii", "replace")
            options["kafka.ssl.keystore.key"] = read_private_key(self.ssl_key_location, self.ssl_key_password)
        return options

    def _login_options(self) -> dict[str, str]:
        """Of Java's login module."""
        if self.sasl_mechanism != _OAUTH:
            return {"username": str(self.sasl_username), "password": str(self.sasl_password)}
        options = {"clientId": str(self.sasl_username), "clientSecret": str(self.sasl_password)}
        if self.sasl_oauthbearer_scope:
            options["scope"] = self.sasl_oauthbearer_scope
        if self.https_ca_location:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.https_ca_location}
        found = _extensions(self.sasl_oauthbearer_extensions)
        return options | {f"extension_{name}": value for name, value in found.items()}

    def to_java_options(self) -> list[str]:
        """Arguments of a Java whose client connects, nothing secret: only this endpoint is asked for tokens."""
        if not self._by_sasl or self.sasl_mechanism != _OAUTH:
            return []
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.sasl_oauthbearer_token_endpoint_url}"]


def _given(config: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value}


def _extensions(text: str | None) -> dict[str, str]:
    found = {}
    for part in filter(None, (text or "").split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(
                "sasl_oauthbearer_extensions is not 'name=value[,name=value]': correct it on the connection."
            )
        found[name.strip()] = value.strip()
    return found
