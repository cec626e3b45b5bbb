"""An Airflow without processes, and an application with topics of its own on the real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.connection import KafkaConnection
from airflow_provider.control.publisher import AssignmentPublisher
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.records import Value
from airflow_provider.control.view import ControlView
from airflow_provider.control.writer import ControlWriter
from airflow_provider.topics import TopicAdmin, TopicSpec, control_specs
from tests.airflow_home import use_temporary_airflow_home
from tests.spark_submit_stub import spark_submit_stub

use_temporary_airflow_home()

FAKE_INSTANCE = Path(__file__).with_name("fake_instance.py")


@dataclass
class Application:
    """An application's topics, and short ways to write into them."""

    id: str
    connection: KafkaConnection

    def write(self, *values: Value) -> None:
        writer = ControlWriter(self.connection, self.id)
        for value in values:
            writer.write(value)

    def publish(self, assignment: Any, *explaining: Value) -> None:
        AssignmentPublisher(self.connection, self.id).publish(assignment, *explaining)

    def view(self) -> ControlView:
        with ControlReader(self.connection, self.id) as reader:
            return reader.read_to_end()


@pytest.fixture
def application(bootstrap_servers: str, application_id: str, monkeypatch: pytest.MonkeyPatch) -> Application:
    connection = KafkaConnection(bootstrap_servers)
    admin = TopicAdmin(connection)
    source = TopicSpec(f"{application_id}-source", 2)
    admin.ensure([source, *control_specs(application_id)])
    extra = {"bootstrap_servers": bootstrap_servers}
    described = {"conn_type": "kafka_streams", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT", json.dumps(described))
    return Application(application_id, connection)


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for runs of instances that run no Spark."""
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        yield run_dir
