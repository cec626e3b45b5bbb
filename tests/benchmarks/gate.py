"""Records of which some are there at once, and the others all at one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from types import TracebackType

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.case import PARTITIONS, Record

__all__ = ["Gate", "committed_all", "committed_ends", "no_transaction_is_open", "partitions_of", "publish"]

_TIMEOUT_S = 1800.0
_TICK_S = 0.05
_NO_COORDINATOR_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
_SENDING = {"linger.ms": 50, "queue.buffering.max.messages": 200_000, "partitioner": "murmur2_random"}


def publish(connection: KafkaConnection, topic: str, batches: Iterable[Sequence[Record]]) -> None:
    """Send records, and wait until the brokers have them."""
    producer = Producer(connection.to_client_config() | _SENDING | {"enable.idempotence": True})
    _send(producer, topic, batches)


class Gate:
    """Sends records in a transaction that is open until `open`, so that whoever reads committed records waits for them.

    Args:
        connection: the cluster.
        name: of its transactions.
        batches: the records, by the topic to which they go.
    """

    def __init__(
        self, connection: KafkaConnection, name: str, batches: Mapping[str, Iterable[Sequence[Record]]]
    ) -> None:
        more = {"transactional.id": f"{name}-gate", "transaction.timeout.ms": 900_000}
        self._producer = Producer(connection.to_client_config() | _SENDING | more)
        self._producer.init_transactions(60)
        self._producer.begin_transaction()
        for topic, records in batches.items():
            _send(self._producer, topic, records)
        self._opened = False

    def open(self) -> None:
        """Let them be read."""
        self._producer.commit_transaction(60)
        self._opened = True

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if not self._opened:
            self._producer.abort_transaction(60)


def committed_all(
    connection: KafkaConnection, group: str, topics: Sequence[str], check: Callable[[], None] = lambda: None
) -> None:
    """Wait until a group has committed all of some topics, one topic after the other, as rows pass through them.

    Args:
        connection: the cluster.
        group: its consumer group.
        topics: in the order in which a record comes through them.
        check: raises where nothing can come any more.
    """
    admin = AdminClient(dict(connection.to_client_config()))
    deadline = time.monotonic() + _TIMEOUT_S
    # Not asked of the admin client, which ends the process where the group has no coordinator yet (librdkafka#5040).
    with closing(Consumer(connection.to_client_config() | {"group.id": group})) as consumer:
        for topic in topics:
            partitions = partitions_of(topic)
            while not _done(admin, consumer, partitions):
                check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{group} has not processed {topic} within {_TIMEOUT_S:g} s")
                time.sleep(_TICK_S)


def _done(admin: AdminClient, consumer: Consumer, partitions: list[TopicPartition]) -> bool:
    try:
        found = consumer.committed(partitions, timeout=30)
    except KafkaException as error:
        if error.args[0].code() not in _NO_COORDINATOR_YET:  # a new broker makes its topic of offsets now
            raise
        return False
    committed = {partition.partition: partition.offset for partition in found}
    ends = committed_ends(admin, partitions)
    # What ends a transaction takes an offset, too, and need not be committed.
    return all(committed[number] >= end - 1 for number, end in ends.items() if end)


def committed_ends(admin: AdminClient, partitions: Sequence[TopicPartition]) -> dict[int, int]:
    """By partition of a topic, up to which offset its records are committed."""
    return _ends(admin, partitions, IsolationLevel.READ_COMMITTED)


def partitions_of(topic: str) -> list[TopicPartition]:
    """Those of a topic of a comparison."""
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def no_transaction_is_open(admin: AdminClient, partitions: Sequence[TopicPartition]) -> bool:
    """Whether all that a topic's partitions hold is committed, or was aborted."""
    return committed_ends(admin, partitions) == _ends(admin, partitions, IsolationLevel.READ_UNCOMMITTED)


def _ends(admin: AdminClient, partitions: Sequence[TopicPartition], isolation: IsolationLevel) -> dict[int, int]:
    latest = {partition: OffsetSpec.latest() for partition in partitions}  # type: ignore[no-untyped-call]
    ends = admin.list_offsets(latest, isolation_level=isolation)
    return {partition.partition: end.result().offset for partition, end in ends.items()}


def _send(producer: Producer, topic: str, batches: Iterable[Sequence[Record]]) -> None:
    for batch in batches:
        if "timestamp" in batch[0]:  # a batch takes none
            for record in batch:
                producer.produce(topic, **record)
        elif (sent := producer.produce_batch(topic, list(batch))) != len(batch):
            raise RuntimeError(f"{len(batch) - sent} of {len(batch)} records were not taken")
        if producer.flush(120):
            raise RuntimeError("the brokers did not take the records in time")
