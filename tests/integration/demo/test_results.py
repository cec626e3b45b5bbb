from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer

from airflow_provider.demo.flights import Aircraft
from airflow_provider.demo.judge import COMMIT_KEY, decode_aircraft
from airflow_provider.demo.publisher import Publisher
from airflow_provider.demo.results import aircraft_of, read_outputs, read_state
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.waiting import wait_until


@pytest.fixture
def connection(bootstrap_servers: str) -> KafkaConnection:
    return KafkaConnection(bootstrap_servers)


@pytest.fixture
def topic(connection: KafkaConnection, application_id: str) -> str:
    TopicAdmin(connection).ensure(
        [TopicSpec(name=application_id, partitions=2, replication_factor=1, config={}, required=frozenset())]
    )
    return application_id


def output(flights: int) -> bytes:
    figures = {"distance": 1.0, "dep_delay_sum": None, "dep_delay_max": None, "last_dest": "SEA"}
    return json.dumps({"tailnum": "N1", "flights": flights, **figures}).encode()


def test_aborted_output_is_not_read_and_a_repeated_one_is(connection: KafkaConnection, topic: str) -> None:
    producer = Producer(connection.to_client_config() | {"transactional.id": topic})
    producer.init_transactions(30.0)
    before_ms = time.time_ns() // 1_000_000
    for flights, commit in ((1, True), (2, False), (3, True), (3, True)):
        producer.begin_transaction()
        producer.produce(topic, output(flights), b"N1", partition=1)
        producer.flush(10.0)
        if commit:
            producer.commit_transaction(10.0)
        else:
            producer.abort_transaction(10.0)

    outputs, times = read_outputs(connection, topic, aircraft_of)

    assert outputs.last == {"N1": Aircraft(3, 1.0, None, None, "SEA")}
    assert outputs.records == 3
    assert len(outputs.repeated) == 1
    assert list(times) == [1]
    assert times[1] == sorted(times[1])
    assert times[1][0] >= before_ms


def test_commit_records_are_read_apart_from_the_state(connection: KafkaConnection, topic: str) -> None:
    producer = Producer(connection.to_client_config())
    for partition in (0, 1):
        for offset in (5, 7):
            note = {
                "sources": {"flights": {"offset": offset, "topic_id": None}},
                "processed": offset,
                "filtered": {},
                "late": 0,
                "generation": 1,
                "instance": "i1",
            }
            producer.produce(topic, json.dumps(note).encode(), COMMIT_KEY, partition=partition)
    producer.flush(10.0)

    state, commits = read_state(connection, topic, "flights", decode_aircraft)

    assert state == {}
    assert {number: commit.source_offset for number, commit in commits.items()} == {0: 7, 1: 7}


def test_everything_is_published_in_order_and_over_the_time(connection: KafkaConnection, topic: str) -> None:
    records = [(b"N1", output(flights)) for flights in range(1, 501)]
    publisher = Publisher(connection, topic, records, duration_s=1.0)

    began = time.monotonic()
    publisher.start()
    wait_until(lambda: publisher.done, 20.0, "the end of publishing")

    assert time.monotonic() - began >= 0.9
    outputs, _ = read_outputs(connection, topic, aircraft_of)
    assert (outputs.records, outputs.repeated) == (500, [])


def test_publishing_can_be_stopped_half_way(connection: KafkaConnection, topic: str) -> None:
    publisher = Publisher(connection, topic, [(None, b"{}")] * 100_000, duration_s=100.0)
    publisher.start()
    wait_until(lambda: publisher.published > 0, 20.0, "the first record")

    publisher.stop()

    assert not publisher.done
    assert 0 < publisher.published < 100_000
