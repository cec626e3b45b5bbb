"""What a missing right and a damaged record do to a topic that is read once."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider.control.application.rights import Role
from airflow_provider.control.history.topic import read_history, write_history
from airflow_provider.control.records.history import HistoryKind, HistoryRecord
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.errors import ConfigurationError, TopicDamagedError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import history_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, history_spec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.integration.guarded_broker import GuardedBroker

pytestmark = pytest.mark.xdist_group("guarded")


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.DESCRIBE], ids=lambda one: one.name.lower())
def test_topic_that_may_not_be_read_is_an_error_that_names_the_right(
    operation: AclOperation, guarded: GuardedBroker, application_id: str
) -> None:
    connection = KafkaConnection(guarded.bootstrap_servers)
    TopicAdmin(connection).ensure([history_spec(application_id)])
    write_history(
        connection,
        application_id,
        HistoryRecord(application_id=application_id, kind=HistoryKind.DRILL, id="d", cause="crash", at_ms=1, by="me"),
    )
    guarded.grant(application_id, Role.AIRFLOW, source="source", sink="sink")
    guarded.deny(ResourceType.TOPIC, history_topic(application_id), operation)

    with pytest.raises(
        ConfigurationError, match=rf"Reading {history_topic(application_id)} is not authorized .* Read on"
    ):
        read_history(guarded.user, application_id, timeout_s=20.0)


def test_damaged_record_is_named_and_not_waited_for(broker: EmbeddedBroker, application_id: str) -> None:
    connection, topic = KafkaConnection(broker.bootstrap_servers), f"{application_id}-sink"
    TopicAdmin(connection).ensure([TopicSpec(name=topic, partitions=1)])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in (b"first of two", b"second of two"):
        producer.produce(topic, value)
        producer.flush(30)
    (log,) = Path(broker.folder.data).rglob(f"{topic}-0/00000000000000000000.log")
    log.write_bytes(log.read_bytes().replace(b"second of two", b"second of twO"))

    with SpanReader(connection, application_id, topic, timeout_s=60.0) as reader:
        assert [record.value() for record in reader.read({0: (0, 1)})] == [b"first of two"]
        with pytest.raises(TopicDamagedError, match=rf"Offset 1 of {topic}\[0\] is damaged"):
            list(reader.read({0: (0, 2)}))
