"""Which applications are watched, as a DAG file can say it without reading a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from airflow_provider.control.liveness import Timeouts
from airflow_provider.errors import ConfigurationError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.names import check_name

__all__ = ["APPLICATIONS_VARIABLE", "WatchedApplication", "parse_applications"]

APPLICATIONS_VARIABLE: Final = "STATEFUL_STREAMS_APPLICATIONS"
"""Environment variable of the DAG processor that names the watched applications."""


@dataclass(frozen=True, kw_only=True)
class WatchedApplication:
    """An application that a watcher follows.

    Args:
        application_id: the application.
        kafka_conn_id: connection of its Kafka cluster.
        instance_timeout_s: silence of an instance that counts as its end.
        stall_timeout_s: how long a task may commit nothing although its source has records.
        num_standby_replicas: wanted standbys per task.
    """

    application_id: str
    kafka_conn_id: str = KafkaStreamsHook.default_conn_name
    instance_timeout_s: float = Timeouts.instance_s
    stall_timeout_s: float = Timeouts.stall_s
    num_standby_replicas: int = 1


def parse_applications(text: str) -> tuple[WatchedApplication, ...]:
    """The applications of a comma-separated list.

    Each is ``<application id>[@<Kafka connection id>][?<option>=<value>&...]`` with the options ``instance_timeout_s``,
    ``stall_timeout_s`` and ``num_standby_replicas``, as in
    ``flights@kafka_streams_default,orders@kafka_eu?num_standby_replicas=2``.

    Raises:
        ConfigurationError: an entry is not of this form, or an application is named twice.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    found = tuple(_parse(entry) for entry in entries)
    if len({application.application_id for application in found}) != len(found):
        raise ConfigurationError(f"{APPLICATIONS_VARIABLE} names an application twice, found {text!r}: name each once.")
    return found


def _parse(entry: str) -> WatchedApplication:
    name, _, options = entry.partition("?")
    application_id, _, conn_id = name.partition("@")
    check_name("application id", application_id)
    given = dict(parse_qsl(urlsplit(f"?{options}").query, keep_blank_values=True))
    try:
        timeout_s = float(given.pop("instance_timeout_s", Timeouts.instance_s))
        replicas = int(given.pop("num_standby_replicas", 1))
        stall_timeout_s = float(given.pop("stall_timeout_s", Timeouts.stall_s))
        Timeouts(instance_s=timeout_s, stall_s=stall_timeout_s)
    except ValueError as error:
        raise ConfigurationError(f"{APPLICATIONS_VARIABLE} has no number in {entry!r}: {error}.") from error
    if given or replicas < 0:
        raise ConfigurationError(
            f"{APPLICATIONS_VARIABLE} holds {entry!r}: after '?' write instance_timeout_s and stall_timeout_s (above "
            "0) and num_standby_replicas (0 or more), joined by '&'."
        )
    return WatchedApplication(
        application_id=application_id,
        kafka_conn_id=conn_id or KafkaStreamsHook.default_conn_name,
        instance_timeout_s=timeout_s,
        stall_timeout_s=stall_timeout_s,
        num_standby_replicas=replicas,
    )
