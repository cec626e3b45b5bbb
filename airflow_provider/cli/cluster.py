"""Which Kafka cluster and which application a command is about."""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.connection_file import connection_from_options


def add_application_options(parser: argparse.ArgumentParser) -> None:
    """Give a command the arguments that every one about an application has, its name first.

    Args:
        parser: of the command.
    """
    parser.add_argument("application_id", metavar="APPLICATION", help="the application id that the job file names")
    add_cluster_options(parser)


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Give a command the arguments by which the brokers are found.

    Args:
        parser: of the command.
    """
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="the brokers (localhost:9092)")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="name=value lines in librdkafka's words, for security"
    )
    parser.add_argument("--conn-id", metavar="ID", help="an Airflow connection, where Airflow is set up")


def cluster_of(asked: argparse.Namespace) -> KafkaConnection:
    """The cluster that the arguments name.

    Args:
        asked: with the arguments of `add_cluster_options`.

    Raises:
        ConfigurationError: the file or the Airflow connection cannot be read.
    """
    if asked.config is None and asked.conn_id is not None:
        return cluster_from_airflow(asked.conn_id)
    return connection_from_options(asked.config, asked.bootstrap_servers)


def cluster_from_airflow(kafka_conn_id: str) -> KafkaConnection:
    """The cluster of an Airflow connection, where Airflow is installed and set up.

    Raises:
        ConfigurationError: there is no Airflow, or no such connection.
    """
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
