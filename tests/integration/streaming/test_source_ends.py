"""What is left to read of a source: behind transactions, and after its broker was started again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.streaming.driver.watches.source_ends import SourceEnd, SourceEnds
from tests.brokers import settings_of_broker
from tests.waiting import wait_until


@pytest.fixture
def topic(bootstrap_servers: str, application_id: str) -> str:
    TopicAdmin(KafkaConnection(bootstrap_servers)).ensure([TopicSpec(name=f"{application_id}-in", partitions=2)])
    return f"{application_id}-in"


@pytest.fixture
def ends(bootstrap_servers: str, topic: str) -> Iterator[SourceEnds]:
    ends = SourceEnds(KafkaConnection(bootstrap_servers), topic)
    yield ends
    ends.close()


def end_of(admin: AdminClient, at: TopicPartition, isolation: IsolationLevel) -> int:
    asked = {at: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
    end: int = admin.list_offsets(asked, isolation_level=isolation)[at].result(20.0).offset
    return end


@pytest.fixture
def produce(bootstrap_servers: str, topic: str) -> Callable[[int, str], None]:
    """A transaction of some records in partition 0: committed, aborted or left open."""
    producers: list[Producer] = []
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    at = TopicPartition(topic, 0)

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
        # A transaction has ended before its markers are in the log.
        if end != "open":
            wait_until(
                lambda: (
                    end_of(admin, at, IsolationLevel.READ_COMMITTED)
                    == end_of(admin, at, IsolationLevel.READ_UNCOMMITTED)
                ),
                60.0,
                "the transaction's marker",
            )

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


def test_many_partitions_are_looked_at_in_the_time_of_one(bootstrap_servers: str, application_id: str) -> None:
    topic, partitions = f"{application_id}-wide", 40
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure([TopicSpec(name=topic, partitions=partitions)])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(20.0)
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(topic, "order", partition=partition)
    producer.commit_transaction(20.0)

    with closing(SourceEnds(connection, topic)) as ends:
        everything = dict.fromkeys(range(partitions), 0)
        wait_until(lambda: {end.end for end in ends.look(everything).values()} == {2}, 60.0, "the markers")

        def took_s(offsets: Mapping[int, int | None]) -> float:
            assert {end.lag_records(1) for end in ends.look(offsets).values()} == {1}, "it is looked for next"
            begun = time.monotonic()
            assert {end.lag_records(1) for end in ends.look(offsets).values()} == {0}
            return time.monotonic() - begun

        of_one = took_s({0: 1})
        of_others = took_s(dict.fromkeys(range(1, partitions), 1))

    assert of_others < 8 * max(of_one, 0.1)


def test_open_transaction_is_counted_apart(ends: SourceEnds, produce: Callable[[int, str], None]) -> None:
    produce(3, "committed")
    produce(5, "open")

    assert lag(ends, 3) == (0, 5)
    assert lag(ends, 0) == (4, 5)


def test_offsets_are_known_soon_after_the_leader_has_changed(application_id: str, tmp_path: Path) -> None:
    topic = f"{application_id}-in"
    with EmbeddedBroker(settings_of_broker(tmp_path / "kafka")) as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        TopicAdmin(connection).ensure([TopicSpec(name=topic, partitions=1)])
        with closing(SourceEnds(connection, topic)) as ends:

            def found() -> Mapping[int, SourceEnd] | None:
                try:
                    return ends.look({0: 0})
                except (KafkaException, TimeoutError):
                    return None

            assert found() == {0: SourceEnd(0, 0, 0)}
            broker.kill()
            broker.start()

            # The epoch of the leader that was killed is refused; an old client would ask with it for minutes.
            assert wait_until(found, 30, "the source's end") == {0: SourceEnd(0, 0, 0)}
