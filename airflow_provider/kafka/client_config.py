"""How to reach a Kafka cluster, from a configuration in librdkafka's words."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection

FIELDS: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_username",
    "sasl.password": "sasl_password",
    "ssl.ca.location": "ssl_ca_location",
    "ssl.certificate.location": "ssl_certificate_location",
    "ssl.key.location": "ssl_key_location",
    "ssl.key.password": "ssl_key_password",
    "sasl.oauthbearer.client.id": "sasl_username",
    "sasl.oauthbearer.client.secret": "sasl_password",
    "sasl.oauthbearer.token.endpoint.url": "sasl_oauthbearer_token_endpoint_url",
    "sasl.oauthbearer.scope": "sasl_oauthbearer_scope",
    "sasl.oauthbearer.extensions": "sasl_oauthbearer_extensions",
    "https.ca.location": "https_ca_location",
}
"""Librdkafka's settings that every client of this package can be given, by the field of `KafkaConnection`."""

_ALIASES: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}

_SAME_AS_DEFAULT: Final = {
    "ssl.endpoint.identification.algorithm": {"https"},
    "enable.ssl.certificate.verification": {"true"},
    "ssl.ca.location": {"probe", ""},
    "https.ca.location": {"probe", ""},
    "sasl.oauthbearer.method": {"oidc"},
    "sasl.oauthbearer.grant.type": {"client_credentials"},
}
"""Values that say what every client does anyway, or that Java's knows no such setting or value for."""

_OF_OTHERS: Final = (
    "acks", "allow.auto.create.topics", "auto.", "batch.", "check.crcs", "client.id", "client.rack",
    "client.software.", "compression.", "consume.", "coordinator.query.interval.ms", "debug", "delivery.",
    "enable.auto.", "enable.gapless.guarantee", "enable.idempotence", "enable.metrics.push", "enable.partition.eof",
    "error_cb", "fetch.", "group.", "heartbeat.interval.ms", "isolation.level", "linger.ms", "log.", "log_level",
    "logger", "max.in.flight", "max.partition.fetch.bytes", "max.poll.", "message.", "on_commit", "on_delivery",
    "partition.assignment.strategy", "partitioner", "queue.buffering.", "queued.", "request.required.acks",
    "request.timeout.ms", "retries", "retry.backoff.", "session.timeout.ms", "statistics.interval.ms", "stats_cb",
    "sticky.partitioning.", "throttle_cb", "transaction.timeout.ms", "transactional.id",
)  # fmt: skip
"""What begins so says how some consumer or producer works, not how the cluster is reached: ours have their own."""


def connection_from_config(config: Mapping[str, Any], where: str) -> KafkaConnection:
    """The cluster that a client's configuration names.

    Settings of single consumers and producers, such as ``group.id``, are left aside. Anything else that not every
    client of this package, of which Spark's is Java's, can be given is refused: left aside, it could make a connection
    less safe than its owner thinks.

    Args:
        where: what the configuration is of, for messages; they name settings, and no value that may be secret.

    Raises:
        ConfigurationError: it sets what cannot be carried over, or lacks something.
    """
    found, refused = fields_of({name: value for name, value in config.items() if not name.startswith(_OF_OTHERS)})
    if refused:
        raise ConfigurationError(
            f"{where} sets {', '.join(sorted(refused))}, which cannot be carried over to every client: of what tells "
            f"how the cluster is reached, only {', '.join(FIELDS)} can, each once and as text. Use another connection."
        )
    return connection_of(found, where, "has no 'bootstrap.servers': set it to host:port[,host:port].")


def fields_of(config: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The fields of a connection that a configuration sets, by name; and the names of what it sets besides."""
    found: dict[str, str] = {}
    refused: list[str] = []
    for given, value in config.items():
        name = _ALIASES.get(given, given)
        if str(value).lower() in _SAME_AS_DEFAULT.get(name, ()):
            continue
        if name in FIELDS and isinstance(value, str) and FIELDS[name] not in found:
            found[FIELDS[name]] = value
        else:
            refused.append(given)
    return found, refused


def connection_of(fields: Mapping[str, str], where: str, if_no_servers: str) -> KafkaConnection:
    """The connection with these fields.

    Args:
        fields: as of `fields_of`.
        where: what they are of, to begin each message with.
        if_no_servers: the rest of the message where they name no brokers.

    Raises:
        ConfigurationError: they lack something.
    """
    given = dict(fields)
    if "bootstrap_servers" not in given:
        raise ConfigurationError(f"{where} {if_no_servers}")
    if "security_protocol" in given:
        given["security_protocol"] = given["security_protocol"].upper()  # librdkafka takes any case
    try:
        return KafkaConnection(given.pop("bootstrap_servers"), **given)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


_BLANKS: Final = " \t"
_SECRETS: Final = frozenset({"sasl_password", "ssl_key_password"})


def connection_from_options(config: Path | None, bootstrap_servers: str | None) -> KafkaConnection:
    """The cluster that a command line names by ``--config`` and ``--bootstrap-servers``; without both, localhost:9092.

    Raises:
        ConfigurationError: the file cannot be read, or says what is not known.
    """
    if config is not None:
        return connection_from_file(config, bootstrap_servers)
    return KafkaConnection(bootstrap_servers or "localhost:9092")


def connection_from_file(file: Path, bootstrap_servers: str | None = None) -> KafkaConnection:
    """The cluster of a file with a ``name=value`` for each line, in librdkafka's words; ``#`` begins a comment.

    Blanks around names and values are no part of them.

    Args:
        file: not readable for every user of the host where it holds a password; its group may read it.
        bootstrap_servers: wins over the file's.

    Raises:
        ConfigurationError: the file cannot be read, says what is not known, or shows a password to everybody.
    """
    found = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
    try:
        # Not `splitlines`: a password may hold what that takes for the end of a line.
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{file} cannot be read ({error}): name a text file with a name=value a line."
        ) from error
    for number, line in enumerate(lines, 1):
        name, equals, value = (part.strip(_BLANKS) for part in line.partition("="))
        if not (name or equals) or name.startswith("#"):
            continue
        fields, refused = fields_of({name: value})
        if not equals or refused:
            # The line itself may hold a password.
            raise ConfigurationError(f"Line {number} of {file} sets none of {', '.join(FIELDS)}: correct or remove it.")
        found = fields | found
    if _SECRETS & found.keys() and file.stat().st_mode & stat.S_IROTH:
        raise ConfigurationError(
            f"{file} holds a password, and every user of this host may read it: take that right away (chmod o-r)."
        )
    return connection_of(
        found, str(file), "has no line bootstrap.servers=host:port: add it, or give --bootstrap-servers."
    )
