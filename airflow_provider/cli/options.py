"""Options that many commands have in common: the cluster, the environment, settings, instances, lists of names."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_provider.control.records.incident import COMMAND_LINE
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.kafka.client_config import connection_from_options
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import check_name

_PREFIX: Final = "STATEFUL_STREAMS_"


def command_id() -> str:
    """Another one each time, by which what a command does is told from what runs do."""
    return f"{COMMAND_LINE}{time.time_ns()}"


def variable_of(option: str) -> str:
    """The environment variable of an option, such as ``STATEFUL_STREAMS_STATE_DIR`` of ``--state-dir``."""
    return _PREFIX + option.removeprefix("--").replace("-", "_").upper()


def set_defaults_of_environment(parser: argparse.ArgumentParser, *options: str) -> None:
    """Let the environment give what the command line does not; argparse takes it as it would take the words."""
    for option in options:
        if value := os.environ.get(variable_of(option)):
            parser.set_defaults(**{option.removeprefix("--").replace("-", "_"): value})


def settings_option(option: str, given: Sequence[str]) -> dict[str, str]:
    """The settings that an option was given with, by name."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ConfigurationError(f"{option} has an entry without a name and '=': write name=value.")
        found[name] = value
    return found


def names_option(text: str) -> tuple[str, ...]:
    """The names of ``a,b``, for argparse.

    Raises:
        ArgumentTypeError: there is none, or one cannot be a name.
    """
    try:
        return tuple(check_name("instance", name.strip()) for name in text.split(","))
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_application_options(parser: argparse.ArgumentParser) -> None:
    """Give a command the arguments that every one about an application has, its name first."""
    parser.add_argument("application_id", metavar="APPLICATION", help="the application id that the job file names")
    add_cluster_options(parser)


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Give a command the arguments by which the brokers are found."""
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="the brokers (localhost:9092)")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="name=value lines in librdkafka's words, for security"
    )
    parser.add_argument("--conn-id", metavar="ID", help="an Airflow connection, where Airflow is set up")


def cluster_of(asked: argparse.Namespace) -> KafkaConnection:
    """The cluster that the arguments name."""
    if asked.config is None and asked.conn_id is not None:
        return cluster_from_airflow(asked.conn_id)
    return connection_from_options(asked.config, asked.bootstrap_servers)


def cluster_from_airflow(kafka_conn_id: str) -> KafkaConnection:
    """The cluster of an Airflow connection, where Airflow is installed and set up."""
    try:
        from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

        from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
    except ImportError as error:
        raise ConfigurationError(
            f"Airflow cannot be imported ({error}): give --bootstrap-servers or --config instead of --conn-id."
        ) from error
    try:
        return KafkaStreamsHook(kafka_conn_id).connection
    except (AirflowException, AirflowRuntimeError) as error:
        raise ConfigurationError(
            f"There is no Airflow connection {kafka_conn_id!r} here ({error}): run where Airflow is set up, or give "
            "--bootstrap-servers."
        ) from error


def add_each(parser: argparse.ArgumentParser, option: str, metavar: str, meaning: str) -> None:
    """An option that may be given several times: a list, empty without it."""
    parser.add_argument(option, action="append", default=[], metavar=metavar, help=meaning)


def add_seconds(parser: argparse.ArgumentParser, option: str, default: float, meaning: str) -> None:
    """An option in seconds; the default stands behind its help."""
    parser.add_argument(option, type=float, default=default, metavar="SECONDS", help=f"{meaning} (%(default)g)")


def add_start_timeout(parser: argparse.ArgumentParser, meaning: str = "how long an instance may take to start") -> None:
    """``--start-timeout``, the same by default wherever an instance is started and looked at."""
    add_seconds(parser, "--start-timeout", Timeouts.start_s, meaning)


def check_instance(view: ControlView, instance: str | None) -> None:
    """Refuse a name that the application does not have."""
    known = view.instance_names
    if instance is not None and instance not in known:
        raise InstanceError(
            f"{view.application_id!r} has no instance {instance!r}, but {', '.join(sorted(known)) or 'none'}: correct "
            "its name."
        )
