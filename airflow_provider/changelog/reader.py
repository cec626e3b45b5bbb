"""Reads changelogs: one client for all tasks of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import BrokerUnreachableError, StoreOutdatedError, TopicMissingError

__all__ = ["ChangelogBatch", "ChangelogReader", "Source"]

Source = tuple[str, int]
"""A changelog's topic and partition."""

_FETCH: Final = {
    "enable.auto.commit": False,
    # A position that is not in the log is a verdict to be taken, never an offset to be made up.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 20,
    "fetch.message.max.bytes": 8 << 20,
    "fetch.max.bytes": 64 << 20,
    "queued.max.messages.kbytes": 64 << 10,
    "allow.auto.create.topics": False,
}


@dataclass
class ChangelogBatch:
    """Consecutive records of one changelog partition.

    Args:
        changes: pairs of key and value in the order of the log; a None value deletes.
        next_offset: offset after the last record, control records included when the end was reached.
        timestamp_ms: of the last record, epoch ms; 0 when there is none.
        at_end: whether the end of the log was reached.
    """

    changes: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    next_offset: int = 0
    timestamp_ms: int = 0
    at_end: bool = False


class ChangelogReader:
    """Follows any number of changelog partitions from given offsets, committed records only.

    Args:
        connection: the cluster.
        group: the application's consumer group; nothing is committed by this client.
    """

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._bootstrap = connection.bootstrap_servers
        self.consumer = Consumer(
            connection.to_client_config() | _FETCH | {"group.id": group, "client.id": f"{group}-changelog-reader"}
        )
        self._assigned: set[Source] = set()

    def add(self, source: Source, offset: int) -> None:
        """Read a partition from `offset` on."""
        self.remove(source)
        self.consumer.incremental_assign([TopicPartition(*source, offset)])
        self._assigned.add(source)

    def remove(self, source: Source) -> None:
        """Stop reading a partition."""
        if source in self._assigned:
            self.consumer.incremental_unassign([TopicPartition(*source)])
            self._assigned.remove(source)

    def only(self, sources: set[Source] | None) -> None:
        """Fetch nothing but these for a while; None fetches all again."""
        wanted = self._assigned if sources is None else sources & self._assigned
        self.consumer.resume([TopicPartition(*s) for s in wanted])
        self.consumer.pause([TopicPartition(*s) for s in self._assigned - wanted])

    def bounds(self, source: Source, timeout_s: float = 10.0) -> tuple[int, int]:
        """First offset that the log still has, and the one after its last, as the broker tells now.

        Raises:
            TopicMissingError: there is no such partition.
            BrokerUnreachableError: no broker answered in time.
        """
        try:
            low, high = self.consumer.get_watermark_offsets(TopicPartition(*source), timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                raise TopicMissingError(
                    f"Changelog {source[0]}[{source[1]}] does not exist: run the create-changelog-topics operator."
                ) from error
            raise BrokerUnreachableError(
                f"No broker of {self._bootstrap} told the bounds of {source[0]}[{source[1]}] within {timeout_s:g} s "
                f"({error.args[0].str()}): check that the brokers answer."
            ) from error
        return int(low), int(high)

    def read(self, max_records: int, timeout_s: float) -> Mapping[Source, ChangelogBatch]:
        """What has come, by partition; at most `max_records` in all, waiting at most `timeout_s`.

        Raises:
            StoreOutdatedError: an offset is not in the log any more.
            TopicMissingError: a changelog is gone.
        """
        batches: dict[Source, ChangelogBatch] = {}
        for message in self.consumer.consume(max_records, timeout_s):
            error = message.error()
            source = (message.topic(), message.partition())
            if source not in self._assigned:
                continue
            batch = batches.get(source)
            if batch is None:
                batch = batches[source] = ChangelogBatch()
            if error is None:
                batch.changes.append((message.key(), message.value()))
                batch.next_offset = message.offset() + 1
                batch.timestamp_ms = message.timestamp()[1]
                batch.at_end = False
            elif error.code() == KafkaError._PARTITION_EOF:
                batch.next_offset = max(batch.next_offset, message.offset())
                batch.at_end = True
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise StoreOutdatedError(
                    f"The position in {source[0]}[{source[1]}] is not in the log any more ({error.str()}): the store "
                    "is restored afresh."
                )
            elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                raise TopicMissingError(
                    f"Changelog {source[0]}[{source[1]}] is gone ({error.str()}): it was deleted while in use."
                )
            elif error.fatal():
                raise KafkaException(error)
        return batches

    def close(self) -> None:
        """Leave the cluster."""
        self.consumer.close()


