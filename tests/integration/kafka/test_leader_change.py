"""A leader changes: offsets are asked for by clients that knew another, and a log is cut behind what was read of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from airflow_provider.changelog.reader import ChangelogEnds, ChangelogReader
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.kafka.broker_error import cut_at
from airflow_provider.kafka.column_consumer import ColumnConsumer, PartitionEvent
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.brokers import settings_of_broker
from tests.several_brokers import several_brokers
from tests.waiting import wait_until

pytestmark = pytest.mark.long

TOPIC, AT = "orders", ("orders", 0)


def test_leader_that_has_just_changed_is_no_error(tmp_path: Path) -> None:
    topic = assignment_topic("app")
    with EmbeddedBroker(settings_of_broker(tmp_path / "kafka")) as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        admin = TopicAdmin(connection)
        admin.ensure([TopicSpec(name=topic, partitions=1)])
        with (
            closing(ChangelogReader(connection, "app")) as changelogs,
            ControlReader(connection, "app", statuses=False) as control,
            SpanReader(connection, "app", topic, timeout_s=60.0) as span,
        ):

            def ask() -> None:
                assert admin.earliest_offsets(topic, [0]) == admin.latest_offsets(topic, [0]) == {0: 0}
                assert changelogs.ends((topic, 0)) == ChangelogEnds(0, 0, 0)
                assert span.bounds(0) == span.bounds(0, since_ms=0) == (0, 0)
                assert control.read_to_end().assignment is None

            ask()
            broker.kill()
            broker.start()

            # The epoch of the leader that was killed is refused (FENCED_LEADER_EPOCH).
            ask()


def test_topic_that_was_just_made_may_have_no_leader_yet(bootstrap_servers: str, application_id: str) -> None:
    admin = TopicAdmin(KafkaConnection(bootstrap_servers))
    for number in range(20):
        name = f"{application_id}-{number}"
        admin.ensure([TopicSpec(name=name, partitions=20)])

        assert admin.latest_offsets(name, range(20)) == dict.fromkeys(range(20), 0)


def write(bootstrap_servers: str, number: int, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
    for at in range(number):
        producer.produce(TOPIC, b"%d" % at, partition=0)
    assert producer.flush(60) == 0


def test_log_that_was_cut_and_has_grown_past_what_was_read_says_where(tmp_path: Path) -> None:
    with several_brokers(tmp_path) as (first, second, third):
        seeds = ",".join(broker.bootstrap_servers for broker in (first, second, third))
        admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
        settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        # The first is the controller, and has no copy.
        topic = NewTopic(TOPIC, 1, replica_assignment=[[2, 3]], config=settings)
        admin.create_topics([topic])[TOPIC].result(60)

        def partition() -> PartitionMetadata:
            # A broker may not have heard yet of what the controller has made: it knows no partition then.
            return admin.list_topics(TOPIC, 30).topics[TOPIC].partitions.get(0, PartitionMetadata())

        wait_until(lambda: partition().isrs == [2, 3], 120, "both copies")
        write(seeds, 10)
        third.kill()
        wait_until(lambda: partition().isrs == [2], 120, "one copy")
        write(seeds, 10, acks=1)
        consumer = ColumnConsumer(
            {"bootstrap.servers": seeds, "group.id": "g", "auto.offset.reset": "error", "check.crcs": True}
        )
        consumer.assign({AT: 0})
        read: list[int] = []
        events: list[PartitionEvent] = []

        def take() -> None:
            columns = consumer.read(1000)
            read.extend(columns.rows[TOPIC].column("__offset").to_pylist() if columns.rows else [])
            events.extend(columns.events)

        def took_all() -> bool:
            take()
            return len(read) >= 20

        wait_until(took_all, 60, "what there is")
        events.clear()

        second.kill()
        third.start(600)
        wait_until(lambda: partition().leader == 3, 120, "the new leader")
        write(",".join((first.bootstrap_servers, third.bootstrap_servers)), 15)

        def told() -> bool:
            take()
            return any(event.error.code() == KafkaError._AUTO_OFFSET_RESET for event in events)

        wait_until(told, 120, "the client to say so")
        consumer.close()
    found = [cut_at(event.error) for event in events if event.error.code() == KafkaError._AUTO_OFFSET_RESET]
    assert found[0] == 10
    assert read == list(range(20))
