"""A connection to Kafka as Airflow keeps it."""

from __future__ import annotations

import json
from typing import Final

from airflow_provider.kafka.connection import KafkaConnection

__all__ = ["DEFAULT_CONNECTION", "airflow_connection"]

DEFAULT_CONNECTION: Final = "AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT"
"""The variable in which Airflow looks for the connection that operators and sensors take where none is named."""


def airflow_connection(connection: KafkaConnection) -> str:
    """The JSON for such a variable, with who connects and by what certificates, where the connection says it."""
    extra = {
        name: value
        for name in ("bootstrap_servers", "security_protocol", "sasl_mechanism", "ssl_ca_location")
        if (value := getattr(connection, name)) is not None
    }
    login = {"login": connection.sasl_username, "password": connection.sasl_password}
    return json.dumps({"conn_type": "kafkastreams", **(login if connection.sasl_username else {}), "extra": extra})
