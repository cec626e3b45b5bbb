"""An application with topics of its own on the real broker, and short ways to write into them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.codec import Value
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, control_plane_specs

FAKE_INSTANCE = Path(__file__).parents[1] / "airflow" / "fake_instance.py"


@dataclass(frozen=True)
class Application:
    """An application's control topics, and a source of two partitions."""

    id: str
    connection: KafkaConnection

    @classmethod
    def create(cls, bootstrap_servers: str, application_id: str) -> Application:
        """Make its topics."""
        connection = KafkaConnection(bootstrap_servers)
        source = TopicSpec(name=f"{application_id}-source", partitions=2)
        TopicAdmin(connection).ensure([source, *control_plane_specs(application_id)])
        return cls(application_id, connection)

    def write(self, *values: Value) -> None:
        write_control(self.connection, self.id, *values)

    def publish(self, assignment: Any, *beside: IncidentRecord) -> None:
        AssignmentPublisher(self.connection, self.id).publish(assignment, *beside)

    def view(self) -> ControlView:
        with ControlReader(self.connection, self.id) as reader:
            return reader.read_to_end()
