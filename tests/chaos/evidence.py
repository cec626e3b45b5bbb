"""Gathers what the judge needs from a broker and from the folders of instances that have stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from rocksdict import AccessType, Options, Rdict

from airflow_provider.common.task_id import TaskId
from tests.chaos.judge import RESERVED, Copy, Evidence, Record
from tests.integration.streaming.committed import end_of

FAMILY = "store-state"
"""The column family of the ledger's store (docs/formats.md)."""


def gather(
    bootstrap_servers: str, application_id: str, state_dirs: Mapping[str, Path], lost: Sequence[Sequence[Record]] = ()
) -> Evidence:
    """Read every topic to its end under ``read_committed``, and every store that the newest assignment names.

    Args:
        bootstrap_servers: of the broker.
        application_id: the application.
        state_dirs: by instance, the folder of its stores.
        lost: what earlier lives of the assignment topic held.
    """
    inputs, outputs, letters, changelog, assignments = (
        read(bootstrap_servers, f"{application_id}-{name}")
        for name in ("input", "output", "dead-letters", "state-changelog", "assignment")
    )
    published = [json.loads(r.value) for r in assignments if r.key == b"assignment" and r.value]
    copies = []
    for text, who in published[-1]["tasks"].items() if published else ():
        task = TaskId.parse(text).partition
        named = ([(who["active"], "active")] if who["active"] else []) + [(s, "standby") for s in who["standbys"]]
        for instance, role in named:
            path = state_dirs[instance] / application_id / text / "rocksdb"
            copies.append(read_store(path, instance, task, role))
    lives = [*lost, assignments]
    return Evidence(
        f"{application_id}-input",
        inputs,
        outputs,
        changelog,
        [record for life in lives for record in life],
        copies,
        letters,
        list(accumulate(map(len, lost))),
    )


def read(bootstrap_servers: str, topic: str, deadline_s: float = 90.0) -> list[Record]:
    """Every committed record of a topic.

    Raises:
        TimeoutError: a transaction is still open, or the broker does not answer.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "fetch.message.max.bytes": 4 << 20,
        }
    )
    deadline = time.monotonic() + deadline_s
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = {p: end_of(consumer, TopicPartition(topic, p)) for p in partitions}
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        records: list[Record] = []
        at = dict.fromkeys(partitions, 0)
        while any(at[p] < ends[p] for p in partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was read up to {at}, its ends are {ends}: a transaction is open")
            for message in consumer.consume(10_000, 0.2):
                error, partition, offset = message.error(), int(message.partition() or 0), int(message.offset() or 0)
                if error is None:
                    headers, (_, time_ms) = _headers(message), message.timestamp()
                    records.append(Record(partition, offset, message.key() or b"", message.value(), headers, time_ms))
                    at[partition] = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    at[partition] = offset
                else:
                    raise KafkaException(error)
        return records
    finally:
        consumer.close()


def _headers(message: Message) -> dict[str, bytes]:
    pairs = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return {name: value or b"" for name, value in pairs}


def read_store(path: Path, instance: str, task: int, role: str, family: str = FAMILY) -> Copy:
    """What a store holds, opened for reading only."""
    try:
        options = Options(raw_mode=True)
        families = dict.fromkeys(Rdict.list_cf(str(path), options), options)
        database = Rdict(str(path), options, column_families=families, access_type=AccessType.read_only())
        store = database.get_column_family(family)
        try:
            items = cast("Iterable[tuple[bytes, bytes]]", store.items())
            content = {key: value for key, value in items if not key.startswith(RESERVED)}
        finally:
            store.close()
            database.close()
    except Exception as error:
        return Copy(instance, task, role, unreadable=f"{error} ({path})")
    return Copy(instance, task, role, content)


def last_offsets(inputs: Collection[Record]) -> dict[int, int]:
    """By partition the offset after its last committed record."""
    return {record.partition: record.offset + 1 for record in inputs}
