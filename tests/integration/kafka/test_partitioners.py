"""The rules by which groups are checked are those by which real producers place them."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message, Producer

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.partitioners import by_crc32, by_murmur2
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec

KEYS = [f"customer-{number}".encode() for number in range(60)] + [b"\xff", "gül".encode()]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        pytest.param({}, by_crc32, id="librdkafkas-default"),
        pytest.param({"partitioner": "murmur2_random"}, by_murmur2, id="java-clients"),
    ],
)
def test_producer_places_each_key_by_the_rule(
    settings: dict[str, str], rule: object, bootstrap_servers: str, application_id: str
) -> None:
    topic, placed = f"{application_id}-in", dict[bytes, int | None]()
    TopicAdmin(KafkaConnection(bootstrap_servers)).ensure([TopicSpec(name=topic, partitions=5)])

    def note(error: KafkaError | None, message: Message) -> None:
        assert error is None
        placed[message.key() or b""] = message.partition()

    producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
    for key in KEYS:
        producer.produce(topic, b"value", key, on_delivery=note)
    assert producer.flush(30) == 0

    assert callable(rule)
    assert placed == dict(zip(KEYS, rule(KEYS, 5).tolist(), strict=True))
