"""The one hook over an application's topics, assignment, status and commands."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import ConfigurationError, StatefulStreamsError, TopicMismatchError
from airflow_provider.names import changelog_topic, check_name

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_provider.control.publisher import AssignmentPublisher
    from airflow_provider.control.reader import ControlReader
    from airflow_provider.control.records import Value
    from airflow_provider.control.view import ControlView
    from airflow_provider.topics import TopicAdmin

__all__ = ["KafkaStreamsHook"]


class KafkaStreamsHook(BaseHook):
    """An application's control plane, reached through an Airflow connection of type ``kafka_streams``.

    The connection's host and port are the bootstrap server; several are named in the extra ``bootstrap_servers``,
    which wins. Login and password are those of SASL. Further extras: ``security_protocol``, ``sasl_mechanism``,
    ``ssl_ca_location``.

    Args:
        kafka_conn_id: id of the connection.
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "kafka_streams_default"
    conn_type = "kafka_streams"
    hook_name = "Kafka Streams"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    @cached_property
    def connection(self) -> KafkaConnection:
        """The cluster.

        Raises:
            ConfigurationError: the connection lacks something.
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

        try:
            admin = AdminClient(self.connection.to_client_config() | {"socket.timeout.ms": 5000})
            metadata = admin.list_topics(timeout=5.0)
        except KafkaException as error:
            return False, f"No broker of {self.connection.bootstrap_servers} answered: {error.args[0].str()}"
        except StatefulStreamsError as error:
            return False, str(error)
        return True, f"{len(metadata.brokers)} broker(s) answered, {len(metadata.topics)} topics"

    def topics(self) -> TopicAdmin:
        """Creates, verifies and describes topics."""
        from airflow_provider.topics import TopicAdmin

        return TopicAdmin(self.connection)

    def create_topics(
        self,
        application_id: str,
        source_topics: Sequence[str],
        stores: Sequence[str],
        replication_factor: int | None = None,
    ) -> dict[str, Any]:
        """Create the changelogs and the control topics of an application, or verify those that exist.

        Returns:
            ``partitions``, the names of the ``changelogs`` and of the ``control`` topics, and which were ``created``.

        Raises:
            ConfigurationError: a name cannot be part of a topic, or no source or store was named.
            TopicMissingError: a source does not exist.
            TopicMismatchError: the sources differ in their partitions, or a topic exists otherwise than needed.
            BrokerUnreachableError: no broker answered.
        """
        from airflow_provider.topics import changelog_spec, control_specs

        check_name("application id", application_id)
        if not source_topics or not stores:
            raise ConfigurationError(
                f"{application_id!r} needs at least one source topic and one store, found {list(source_topics)} and "
                f"{list(stores)}: name them."
            )
        topics = self.topics()
        found = {topic: topics.partitions(topic) for topic in source_topics}
        if len(set(found.values())) > 1:
            told = ", ".join(f"{topic}: {count}" for topic, count in found.items())
            raise TopicMismatchError(
                f"The source topics of {application_id!r} have different numbers of partitions ({told}): a task takes "
                "the same partition of each, so recreate them with the same number."
            )
        partitions = next(iter(found.values()))
        changelogs = [
            changelog_spec(application_id, check_name("store", store), partitions, replication_factor)
            for store in stores
        ]
        control = control_specs(application_id, replication_factor)
        created = topics.ensure([*changelogs, *control])
        return {
            "partitions": partitions,
            "changelogs": [spec.name for spec in changelogs],
            "control": [spec.name for spec in control],
            "created": list(created),
        }

    def number_of_tasks(self, application_id: str, store: str = "state") -> int:
        """How many tasks an application has: the partitions of its store's changelog.

        Raises:
            TopicMissingError: there is no such changelog.
        """
        return self.topics().partitions(changelog_topic(application_id, store))

    def reader(self, application_id: str) -> ControlReader:
        """Reads and follows the control topics; a context manager."""
        from airflow_provider.control.reader import ControlReader

        return ControlReader(self.connection, application_id)

    def read(self, application_id: str) -> ControlView:
        """What the control topics hold now.

        Raises:
            TopicMissingError: they do not exist.
            BrokerUnreachableError: their end was not reached in time.
        """
        with self.reader(application_id) as reader:
            return reader.read_to_end()

    def publisher(self, application_id: str) -> AbstractContextManager[AssignmentPublisher]:
        """The one writer of assignments; from now on every earlier one is fenced.

        Raises:
            BrokerUnreachableError: the transaction coordinator did not answer.
        """
        from airflow_provider.control.publisher import AssignmentPublisher

        return AssignmentPublisher(self.connection, application_id)

    def write(self, application_id: str, *values: Value) -> None:
        """Store commands, deployments or records that need no fencing.

        Raises:
            BrokerUnreachableError: one was not stored in time.
        """
        from airflow_provider.control.writer import ControlWriter

        writer = ControlWriter(self.connection, application_id)
        try:
            for value in values:
                writer.write(value)
        finally:
            writer.close()


def _to_kafka(connection: Connection) -> KafkaConnection:
    extra: dict[str, Any] = connection.extra_dejson
    servers = extra.get("bootstrap_servers")
    if not servers and connection.host:
        servers = ",".join(
            host if ":" in host or not connection.port else f"{host}:{connection.port}"
            for host in connection.host.split(",")
        )
    if not servers:
        raise ConfigurationError(
            f"Connection {connection.conn_id!r} names no bootstrap server: set its host and port, or "
            "'bootstrap_servers' among its extras."
        )
    return KafkaConnection(
        bootstrap_servers=servers,
        security_protocol=extra.get("security_protocol") or "PLAINTEXT",
        sasl_mechanism=extra.get("sasl_mechanism") or None,
        sasl_username=connection.login or None,
        sasl_password=connection.password or None,
        ssl_ca_location=extra.get("ssl_ca_location") or None,
    )
