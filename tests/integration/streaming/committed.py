"""What is seen of a topic: an ordinary consumer under ``read_committed`` that shares no code with the product."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.waiting import wait_until

RESERVED = b"\xff\xfe"
COMMIT = b"\xff\xfestateful-streams/commit"


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    key: bytes
    value: bytes | None


def consumer_of(bootstrap_servers: str, isolation_level: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "independent-reader",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )


def end_of(consumer: Consumer, partition: TopicPartition) -> int:
    """A partition's end; a broker that has just started, or is too busy for its controller, may not lead it now."""

    ends: list[int] = []

    def asked() -> bool:
        try:
            ends.append(consumer.get_watermark_offsets(partition, timeout=30)[1])
            return True
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._UNKNOWN_PARTITION):
                raise
            return False

    wait_until(asked, 30, "the partition's leader")
    return ends[-1]


def ends_of(bootstrap_servers: str, topic: str, isolation_level: str = "read_uncommitted") -> dict[int, int]:
    """By partition, the end of all that lies there, of an open transaction too; or of what is committed."""
    consumer = consumer_of(bootstrap_servers, isolation_level)
    try:
        numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        return {n: end_of(consumer, TopicPartition(topic, n)) for n in numbers}
    finally:
        consumer.close()


def wait_for_markers(bootstrap_servers: str, topic: str) -> None:
    """A commit returns before the markers are written that show it to readers: wait for them."""

    def no_transaction_is_open() -> bool:
        # Both again: a marker that is on its way is itself a record.
        return ends_of(bootstrap_servers, topic, "read_committed") == ends_of(bootstrap_servers, topic)

    wait_until(no_transaction_is_open, 30, f"the last markers of {topic}")


def records_of(bootstrap_servers: str, topic: str, settled: bool = True) -> list[Record]:
    """Every committed record of a topic, up to its ends now.

    A commit returns before the marker is written that shows it to readers, so this waits for the markers; not if a
    transaction was left open (`settled` is false).
    """
    ends = ends_of(bootstrap_servers, topic)
    consumer = consumer_of(bootstrap_servers, "read_committed")
    consumer.assign([TopicPartition(topic, number, 0) for number in ends])
    found: list[Record] = []
    at_end: set[int] = set()

    def read() -> bool:
        for message in consumer.consume(10_000, 0.1):
            partition, offset = message.partition() or 0, message.offset() or 0
            if message.error() is None:
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                assert value is None or isinstance(value, bytes)
                found.append(Record(partition, offset, key, value))
            elif offset >= ends[partition] or not settled:
                at_end.add(partition)
        return len(at_end) == len(ends)

    try:
        wait_until(read, 60, f"the ends of {topic}")
    finally:
        consumer.close()
    return found


def newest_by_key(records: list[Record], partition: int | None = None) -> dict[bytes, bytes]:
    """What a compacted topic stands for, without the records that the product keeps for itself."""
    newest: dict[bytes, bytes] = {}
    for record in records:
        if record.key.startswith(RESERVED) or partition not in (None, record.partition):
            continue
        if record.value is None:
            newest.pop(record.key, None)
        else:
            newest[record.key] = record.value
    return newest


def commits(records: list[Record], partition: int) -> list[dict[str, Any]]:
    """The commit records of one task, in order."""
    return [
        json.loads(record.value)
        for record in records
        if record.key == COMMIT and record.partition == partition and record.value is not None
    ]


def last_commits(records: list[Record]) -> list[dict[str, Any]]:
    """The last commit record of each task that has one, in their order."""
    last = {record.partition: record.value for record in records if record.key == COMMIT and record.value is not None}
    return [json.loads(value) for _, value in sorted(last.items())]


def outputs_by_key(records: list[Record]) -> dict[str, list[dict[str, Any]]]:
    """The JSON objects of a sink, by key, in order."""
    outputs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        assert record.value is not None
        outputs[record.key.decode()].append(json.loads(record.value))
    return dict(outputs)


def values_by_key(records: list[Record], name: str) -> dict[str, list[Any]]:
    """One field of the JSON objects of a sink, by key, in order."""
    return {key: [row[name] for row in rows] for key, rows in outputs_by_key(records).items()}


def accumulators(row: bytes, number: int) -> tuple[int | None, ...]:
    """The integers that an aggregate's state holds; None for null."""
    version, *fields = struct.unpack_from(f"<B{number}B{number}q", row)
    assert version == 1
    return tuple(value if ok else None for ok, value in zip(fields[:number], fields[number:], strict=True))


def group_offset(bootstrap_servers: str, group: str, topic: str, partition: int) -> int:
    """What an ordinary lag tool sees of a consumer group; negative when there is nothing."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=30)
        return int(found.offset)
    finally:
        consumer.close()
