"""The one hook over an application's topics, assignment, status and commands."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError, StatefulStreamsError
from airflow_provider.kafka.client_config import FIELDS, connection_from_config, connection_of, fields_of
from airflow_provider.kafka.connection import KafkaConnection

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_provider.control.records.history import HistoryKind, HistoryRecord
    from airflow_provider.control.records.metrics import MetricsRecord
    from airflow_provider.control.topics.codec import Value
    from airflow_provider.control.topics.reader import ControlReader
    from airflow_provider.control.topics.view import ControlView
    from airflow_provider.kafka.topic_admin import TopicAdmin

_APACHE_KAFKA: Final = "kafka"
"""The type of the apache-kafka provider's connections, which need not be installed here."""


class KafkaStreamsHook(BaseHook):
    """An application's control plane, reached through an Airflow connection of type ``kafkastreams``.

    The connection's host and port are the bootstrap server; several are named in the extra ``bootstrap_servers``,
    which wins. Login and password are those of SASL, or the client's id and secret with OAUTHBEARER. Further extras are
    the other fields of `KafkaConnection`, by their names or in librdkafka's words (``ssl.key.location``); one that is
    not known is refused.

    A connection of type ``kafka``, of the apache-kafka provider, serves as well: its extras are a client's
    configuration in librdkafka's words (`kafka.client_config.connection_from_config`).
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "kafka_streams_default"
    conn_type = "kafkastreams"
    hook_name = "Kafka Streams"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    @cached_property
    def connection(self) -> KafkaConnection:
        """The cluster.

        Raises:
            ConfigurationError: the connection lacks something, or sets what no client is given.
        """
        return _to_kafka(self.get_connection(self.kafka_conn_id))

    async def get_connection_async(self) -> KafkaConnection:
        """The cluster, for a trigger: without blocking the event loop.

        Raises:
            ConfigurationError: the connection lacks something.
        """
        return _to_kafka(await self.aget_connection(self.kafka_conn_id))

    def get_conn(self) -> KafkaConnection:
        """The cluster, under the name by which Airflow's tools look for it."""
        return self.connection

    def test_connection(self) -> tuple[bool, str]:
        """Whether a broker answers, for the button in the form."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        from airflow_provider.kafka.broker_error import ConnectionErrors

        try:
            connection = self.connection
        except ConfigurationError as error:
            return False, str(error)
        errors = ConnectionErrors(connection, logs=False)
        try:
            config: dict[str, Any] = {"socket.timeout.ms": 5000, "error_cb": errors}
            admin = AdminClient(connection.to_client_config() | config)
        except (StatefulStreamsError, KafkaException) as error:
            return False, str(error)
        try:
            metadata = admin.list_topics(timeout=5.0)
        except KafkaException as error:
            admin.poll(0)
            why = errors.because(error.args[0].str())
            return False, f"No broker of {self.connection.bootstrap_servers} answered: {why}"
        return True, f"{len(metadata.brokers)} broker(s) answered, {len(metadata.topics)} topics"

    def topics(self) -> TopicAdmin:
        """Creates, verifies and describes topics."""
        from airflow_provider.kafka.topic_admin import TopicAdmin

        return TopicAdmin(self.connection)

    def tasks(self, application_id: str, store: str = "state") -> tuple[TaskId, ...]:
        """As `control.application.job_topics.application_tasks`."""
        from airflow_provider.control.application.job_topics import application_tasks

        return application_tasks(self.connection, application_id, store)

    def reader(self, application_id: str) -> ControlReader:
        """Reads and follows the control topics; a context manager."""
        from airflow_provider.control.topics.reader import ControlReader

        return ControlReader(self.connection, application_id)

    def read(self, application_id: str) -> ControlView:
        """What the control topics hold now.

        Raises:
            TopicMissingError: they do not exist.
        """
        with self.reader(application_id) as reader:
            return reader.read_to_end()

    def write(self, application_id: str, *values: Value) -> None:
        """Store commands, deployments or records that need no fencing."""
        from airflow_provider.control.topics.writer import write_control

        write_control(self.connection, application_id, *values)

    def write_history(self, application_id: str, *records: HistoryRecord, timeout_s: float = 10.0) -> None:
        """As `control.history.topic.write_history`."""
        from airflow_provider.control.history.topic import write_history

        write_history(self.connection, application_id, *records, timeout_s=timeout_s)

    def read_history(
        self, application_id: str, since: int | None = None, kind: HistoryKind | None = None
    ) -> tuple[HistoryRecord, ...]:
        """As `control.history.topic.read_history`."""
        from airflow_provider.control.history.topic import read_history

        return read_history(self.connection, application_id, since, kind)

    def read_metrics(self, application_id: str, since: int | None = None) -> tuple[MetricsRecord, ...]:
        """As `control.outlook.metrics_topic.read_metrics`."""
        from airflow_provider.control.outlook.metrics_topic import read_metrics

        return read_metrics(self.connection, application_id, since)


def _to_kafka(connection: Connection) -> KafkaConnection:
    extra: dict[str, Any] = connection.extra_dejson
    where = f"Connection {connection.conn_id!r}"
    if connection.conn_type == _APACHE_KAFKA:
        return connection_from_config(extra, f"{where} of type '{_APACHE_KAFKA}'")
    if connection.conn_type != KafkaStreamsHook.conn_type:
        # Its login is another system's, and not the brokers' to see.
        raise ConfigurationError(
            f"{where} is of type {connection.conn_type!r}, and names no Kafka cluster: use one of type "
            f"'{KafkaStreamsHook.conn_type}' or '{_APACHE_KAFKA}', or correct its type."
        )
    # Left aside, one could make the connection less safe than its owner thinks. The values may be secret.
    # A form of Airflow's gives librdkafka's words with underscores; its empty fields say nothing.
    names = {name.replace("_", "."): name for name, value in extra.items() if value not in (None, "")}
    config = {dotted: extra[name] for dotted, name in names.items()}
    if not config.get("bootstrap.servers") and connection.host:
        config["bootstrap.servers"] = ",".join(
            host if ":" in host or not connection.port else f"{host}:{connection.port}"
            for host in connection.host.split(",")
        )
    found, refused = fields_of(config)
    for field, value in (("sasl_username", connection.login), ("sasl_password", connection.password)):
        if value:
            found.setdefault(field, value)
    if refused:
        unknown = ", ".join(sorted(names.get(name, name) for name in refused))
        raise ConfigurationError(
            f"{where} has extras that are not known: {unknown}. Known are "
            f"{', '.join(FIELDS)}, each once and as text, with '.' or '_' between the words: correct or remove the "
            "others."
        )
    return connection_of(
        found,
        where,
        "names no bootstrap server: set its host and port, or 'bootstrap_servers' among its extras.",
    )
