"""Columns are what confluent-kafka's messages say, over records of all kinds."""

from __future__ import annotations

import gc
import random
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider.kafka.column_consumer import BEGINNING, ColumnConsumer
from tests.waiting import wait_until

PARTITIONS = 3
Row = tuple[int, int, bytes | None, bytes | None, int]


@pytest.fixture
def config(bootstrap_servers: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "columns",
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 20,
        "fetch.queue.backoff.ms": 5,
    }


@pytest.fixture
def topic(bootstrap_servers: str, application_id: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(application_id, PARTITIONS, 1)]).values():
        future.result(30)
    return application_id


@pytest.fixture
def consumer(config: Mapping[str, Any]) -> Iterator[ColumnConsumer]:
    made = ColumnConsumer(config)
    yield made
    made.close()


_SIZES: Final = (0, 1, 20, 200, 5_000)
_LARGE: Final = (0, 1, 5_000, 40_000)


def written(
    bootstrap_servers: str, topic: str, records: int, seed: int, sizes: Sequence[int] = _SIZES, **settings: Any
) -> None:
    """Records with and without keys and values, of all sizes from none; every fifth transaction is aborted."""
    pick = random.Random(seed)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-{seed}"} | settings)
    producer.init_transactions(30)
    for number in range(0, records, 100):
        producer.begin_transaction()
        for at in range(number, min(records, number + 100)):
            size = pick.choice(sizes)
            key = pick.choice((None, b"", pick.randbytes(pick.randint(1, 40))))
            value = None if pick.random() < 0.1 else pick.randbytes(size)
            producer.produce(topic, value, key, pick.randrange(PARTITIONS), timestamp=1_700_000_000_000 + at)
        if number // 100 % 5 == 4:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def ends_of(config: Mapping[str, Any], topic: str) -> dict[tuple[str, int], int]:
    asked = Consumer(dict(config))
    found = {
        (topic, number): asked.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
        for number in range(PARTITIONS)
    }
    asked.close()
    return found


def by_messages(config: Mapping[str, Any], topic: str) -> list[Row]:
    plain = Consumer(dict(config) | {"enable.partition.eof": True})
    plain.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found, ended = list[Row](), set[int]()
    while len(ended) < PARTITIONS:
        message = plain.poll(10)
        assert message is not None, "nothing came for ten seconds"
        if (error := message.error()) is None:
            key, value = message.key(), message.value()
            assert key is None or isinstance(key, bytes)
            assert value is None or isinstance(value, bytes)
            found.append((message.partition() or 0, message.offset() or 0, key, value, message.timestamp()[1]))
        else:
            assert error.code() == KafkaError._PARTITION_EOF
            ended.add(message.partition() or 0)
    plain.close()
    return sorted(found)


def rows_in(batch: pa.RecordBatch) -> list[Row]:
    names = ("__partition", "__offset", "__source_key", "__value", "__timestamp_ms")
    return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))


def read_all(consumer: ColumnConsumer, topic: str, most: int) -> list[Row]:
    found, ended = list[Row](), set[int]()

    def all_ended() -> bool:
        columns = consumer.read(most, {topic})
        for batch in columns.rows.values():
            numbers = batch.column("__partition").to_pylist()
            assert numbers == sorted(numbers)
            found.extend(rows_in(batch))
        ended.update(event.partition for event in columns.events)
        return len(ended) == PARTITIONS

    wait_until(all_ended, 30, "the ends of all partitions")
    return found


@pytest.mark.parametrize("settings", [{}, {"compression.type": "lz4"}, {"batch.size": 1}, {"sizes": _LARGE}])
def test_columns_are_what_messages_say(
    consumer: ColumnConsumer,
    config: dict[str, Any],
    topic: str,
    bootstrap_servers: str,
    settings: dict[str, Any],
) -> None:
    written(bootstrap_servers, topic, 3_000, 7, **settings)
    expected = by_messages(config, topic)

    consumer.assign({(topic, number): BEGINNING for number in range(PARTITIONS)})
    found = read_all(consumer, topic, 700)

    assert len(expected) == 2_400
    assert sorted(found) == expected
    for number in range(PARTITIONS):
        offsets = [row[1] for row in found if row[0] == number]
        assert offsets == sorted(offsets)


def test_rows_are_their_own_once_they_are_read(consumer: ColumnConsumer, topic: str, bootstrap_servers: str) -> None:
    """What was read is not memory of the client's, which frees and overwrites that."""
    written(bootstrap_servers, topic, 400, 3)
    consumer.assign({(topic, number): BEGINNING for number in range(PARTITIONS)})
    first = wait_until(lambda: consumer.read(400, {topic}).rows, 30, "records")[topic]
    before = rows_in(first)

    written(bootstrap_servers, topic, 3_000, 4)
    read_all(consumer, topic, 100_000)
    consumer.close()
    gc.collect()

    assert rows_in(first) == before


def test_several_topics_are_parted(
    consumer: ColumnConsumer, config: dict[str, Any], topic: str, bootstrap_servers: str
) -> None:
    admin, other = AdminClient({"bootstrap.servers": bootstrap_servers}), f"{topic}-other"
    admin.create_topics([NewTopic(other, PARTITIONS, 1)])[other].result(30)
    written(bootstrap_servers, topic, 500, 1)
    written(bootstrap_servers, other, 500, 2)
    consumer.assign({(name, number): BEGINNING for name in (topic, other) for number in range(PARTITIONS)})
    found: dict[str, list[Row]] = {topic: [], other: []}

    def all_read() -> bool:
        for name, batch in consumer.read(1_000, {topic, other}).rows.items():
            found[name] += rows_in(batch)
        return all(len(rows) >= 400 for rows in found.values())

    wait_until(all_read, 30, "the records of both")
    assert {name: sorted(rows) for name, rows in found.items()} == {
        name: by_messages(config, name) for name in (topic, other)
    }


def test_reads_on_from_where_it_is_told(consumer: ColumnConsumer, topic: str, bootstrap_servers: str) -> None:
    written(bootstrap_servers, topic, 300, 5)
    consumer.assign({(topic, 0): BEGINNING})
    first = wait_until(lambda: consumer.read(5).rows, 30, "records")[topic]
    at = first.column("__offset")[2].as_py()

    consumer.unassign([(topic, 0)])
    consumer.assign({(topic, 0): at})

    again = wait_until(lambda: consumer.read(5).rows, 30, "records")[topic]
    assert again.column("__offset")[0].as_py() == at
    assert "__timestamp_ms" not in again.schema.names


def test_what_comes_after_a_silence_is_signalled(consumer: ColumnConsumer, topic: str, bootstrap_servers: str) -> None:
    consumer.assign({(topic, 0): BEGINNING})
    wait_until(lambda: consumer.read(10).events, 30, "the end")
    assert not consumer.read(10).rows

    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, b"new", partition=0)
    producer.flush(30)

    assert select.select([consumer.ready], [], [], 30)[0]
    assert wait_until(lambda: consumer.read(10).rows, 30, "the record")


def test_offset_that_is_not_in_the_log_is_said(
    consumer: ColumnConsumer, config: dict[str, Any], topic: str, bootstrap_servers: str
) -> None:
    written(bootstrap_servers, topic, 300, 6)
    consumer.assign({(topic, 1): 1_000_000})

    events = wait_until(lambda: consumer.read(10).events, 30, "the verdict")

    assert [(event.topic, event.partition) for event in events] == [(topic, 1)]
    assert events[0].error.code() == KafkaError._AUTO_OFFSET_RESET
    partitions = [(topic, number) for number in range(PARTITIONS)]
    assert consumer.ends(partitions, 30) == ends_of(config, topic)
    assert consumer.ends(partitions, 30, BEGINNING) == dict.fromkeys(partitions, 0)


def test_bounds_are_the_broker_s_and_the_end_is_known_with_the_records(
    consumer: ColumnConsumer, config: dict[str, Any], topic: str, bootstrap_servers: str
) -> None:
    written(bootstrap_servers, topic, 300, 6)
    ends = ends_of(config, topic)
    consumer.assign({(topic, 1): 0})
    assert consumer.known_end((topic, 1)) is None

    rows = wait_until(lambda: consumer.read(10_000, timeout_s=0.1).rows, 30, "records")[topic]

    assert rows.column("__offset")[0].as_py() == 0
    assert consumer.known_end((topic, 1)) == ends[topic, 1]
    assert {(topic, number): consumer.bounds((topic, number), 30) for number in range(PARTITIONS)} == {
        at: (0, end) for at, end in ends.items()
    }
    with pytest.raises(KafkaException) as unknown:
        consumer.bounds((topic, PARTITIONS), 30)
    assert unknown.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


def test_partition_is_assigned_once(consumer: ColumnConsumer, topic: str) -> None:
    consumer.assign({(topic, 0): 0})
    with pytest.raises(KafkaException, match=topic):
        consumer.assign({(topic, 0): 0})
    with pytest.raises(KafkaException, match=topic):
        consumer.unassign([(topic, 2)])


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_use_of_a_closed_one_is_refused_and_one_that_is_dropped_leaves_no_thread(
    config: dict[str, Any], topic: str
) -> None:
    before = _threads()
    closed = ColumnConsumer(config)
    closed.close()
    closed.close()
    uses: list[Callable[[], object]] = [
        lambda: closed.read(1),
        lambda: closed.assign({(topic, 0): 0}),
        lambda: closed.unassign([(topic, 0)]),
        lambda: closed.bounds((topic, 0), 1.0),
        lambda: closed.known_end((topic, 0)),
        lambda: closed.ends([(topic, 0)], 1.0),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match="closed"):
            use()

    dropped = ColumnConsumer(config)
    assert _threads() > before
    del dropped
    gc.collect()
    wait_until(lambda: _threads() <= before, 10, "the end of its threads")


def test_wrong_setting_is_named() -> None:
    with pytest.raises(KafkaException, match=r"no\.such\.setting"):
        ColumnConsumer({"no.such.setting": 1})
