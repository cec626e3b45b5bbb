"""How to reach a Kafka cluster, from a configuration in librdkafka's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection

__all__ = ["FIELDS", "connection_from_config"]

FIELDS: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_username",
    "sasl.password": "sasl_password",
    "ssl.ca.location": "ssl_ca_location",
}
"""Librdkafka's settings that every client of this package can be given, by the field of `KafkaConnection`."""

_ALIASES: Final = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}

_SAME_AS_DEFAULT: Final = {
    "ssl.endpoint.identification.algorithm": {"https"},
    "enable.ssl.certificate.verification": {"true"},
    "ssl.ca.location": {"probe", ""},
}
"""Values that say what Java's client does anyway, which knows no such setting or value."""

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
        config: in librdkafka's words, as of confluent-kafka's clients.
        where: what the configuration is of, for messages; they name settings, and no value that may be secret.

    Raises:
        ConfigurationError: it sets what cannot be carried over, or lacks something.
    """
    found: dict[str, str] = {}
    refused: list[str] = []
    for given, value in config.items():
        name = _ALIASES.get(given, given)
        if str(value).lower() in _SAME_AS_DEFAULT.get(name, ()):
            continue
        if name in FIELDS and isinstance(value, str) and FIELDS[name] not in found:
            found[FIELDS[name]] = value
        elif not name.startswith(_OF_OTHERS):
            refused.append(given)
    if refused:
        raise ConfigurationError(
            f"{where} sets {', '.join(sorted(refused))}, which cannot be carried over to every client: of what tells "
            f"how the cluster is reached, only {', '.join(FIELDS)} can, each once and as text. Use another connection."
        )
    if "bootstrap_servers" not in found:
        raise ConfigurationError(f"{where} has no 'bootstrap.servers': set it to host:port[,host:port].")
    if "security_protocol" in found:
        found["security_protocol"] = found["security_protocol"].upper()  # librdkafka takes any case
    return KafkaConnection(found.pop("bootstrap_servers"), **found)
