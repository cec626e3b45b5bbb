"""What heartbeats cost a real broker."""

from __future__ import annotations

import itertools

from airflow_provider.control.records.status import InstanceState, InstanceStatus, TaskState
from airflow_provider.control.topics.codec import to_value
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import control_specs
from airflow_provider.kit.broker import EmbeddedBroker
from tests.builders import active

BEATS = 20


def beats(application_id: str) -> list[InstanceStatus]:
    """Of an instance with many tasks, each of which has got on since the one before."""
    return [
        InstanceStatus(
            application_id=application_id,
            instance="a",
            incarnation=1,
            state=InstanceState.RUNNING,
            sent_at_ms=1_000 * beat,
            tasks=tuple(active(task, TaskState.RUNNING, position=beat * 977 + task * 31) for task in range(64)),
        )
        for beat in range(BEATS)
    ]


def test_heartbeats_of_many_tasks_are_compressed(broker: EmbeddedBroker, application_id: str) -> None:
    connection = KafkaConnection(broker.bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    writer = ControlWriter(connection, application_id)
    sent = 0

    for beat in beats(application_id):
        writer.write(beat)
        sent += len(to_value(beat))
    writer.close()

    segments = itertools.chain.from_iterable(
        folder.glob("*.log") for folder in broker.folder.data.glob(f"{application_id}-status-*")
    )
    stored = sum(segment.stat().st_size for segment in segments)
    assert 0 < stored < sent / 4
