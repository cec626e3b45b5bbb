"""What is left to read of a source whose producers use transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.streaming.driver.source_ends import SourceEnds


@pytest.fixture
def topic(bootstrap_servers: str, application_id: str) -> str:
    TopicAdmin(KafkaConnection(bootstrap_servers)).ensure([TopicSpec(name=f"{application_id}-in", partitions=2)])
    return f"{application_id}-in"


@pytest.fixture
def ends(bootstrap_servers: str, topic: str) -> Iterator[SourceEnds]:
    ends = SourceEnds(KafkaConnection(bootstrap_servers), topic)
    yield ends
    ends.close()


@pytest.fixture
def produce(bootstrap_servers: str, topic: str) -> Callable[[int, str], None]:
    """A transaction of some records in partition 0: committed, aborted or left open."""
    producers: list[Producer] = []

    def one(records: int, end: str) -> None:
        producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-{len(producers)}", "linger.ms": 0}
        )
        producers.append(producer)
        producer.init_transactions(20.0)
        producer.begin_transaction()
        for number in range(records):
            producer.produce(topic, str(number), partition=0)
        producer.flush(20.0)
        if end == "committed":
            producer.commit_transaction(20.0)
        elif end == "aborted":
            producer.abort_transaction(20.0)

    return one


def lag(ends: SourceEnds, offset: int | None) -> tuple[int, int]:
    """As it is known after a second look at the same position."""
    ends.look({0: offset, 1: None})
    found = ends.look({0: offset, 1: None})
    assert (found[1].end, found[1].lag_records(None)) == (0, 0)
    return found[0].lag_records(offset), found[0].uncommitted_records


def test_records_wait_until_they_are_read(ends: SourceEnds, produce: Callable[[int, str], None]) -> None:
    produce(3, "committed")

    assert lag(ends, None) == (4, 0)
    assert lag(ends, 1) == (3, 0)


def test_marker_behind_the_last_record_is_nothing_to_read(
    ends: SourceEnds, produce: Callable[[int, str], None]
) -> None:
    produce(3, "committed")
    assert lag(ends, 3) == (0, 0)

    produce(1, "committed")
    assert lag(ends, 3) == (2, 0)
    assert lag(ends, 5) == (0, 0)


def test_aborted_records_are_nothing_to_read(ends: SourceEnds, produce: Callable[[int, str], None]) -> None:
    produce(3, "committed")
    produce(20, "aborted")

    assert lag(ends, 3) == (0, 0)


def test_open_transaction_is_counted_apart(ends: SourceEnds, produce: Callable[[int, str], None]) -> None:
    produce(3, "committed")
    produce(5, "open")

    assert lag(ends, 3) == (0, 5)
    assert lag(ends, 0) == (4, 5)
