"""What a consumer of columns says of a log that a new leader cuts, and that grows past what was read of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider.kafka.column_consumer import ColumnConsumer, PartitionEvent
from airflow_provider.streaming.worker.step.source_reader import cut_at
from tests.several_brokers import several_brokers
from tests.waiting import wait_until

pytestmark = pytest.mark.long

TOPIC, AT = "orders", ("orders", 0)


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

        def partition() -> Any:
            return admin.list_topics(TOPIC, 30).topics[TOPIC].partitions[0]

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

        def take(until: int) -> bool:
            columns = consumer.read(1000)
            read.extend(columns.rows[TOPIC].column("__offset").to_pylist() if columns.rows else [])
            events.extend(columns.events)
            return len(read) >= until

        wait_until(lambda: take(20), 60, "what there is")
        events.clear()

        second.kill()
        third.start(600)
        wait_until(lambda: partition().leader == 3, 120, "the new leader")
        write(",".join((first.bootstrap_servers, third.bootstrap_servers)), 15)

        def told() -> bool:
            take(1 << 60)
            return any(event.error.code() == KafkaError._AUTO_OFFSET_RESET for event in events)

        wait_until(told, 120, "the client to say so")
        consumer.close()
        print([(event.offset, event.error.str()) for event in events])
    found = [cut_at(event.error) for event in events if event.error.code() == KafkaError._AUTO_OFFSET_RESET]
    assert found[0] == 10
    assert read == list(range(20))
