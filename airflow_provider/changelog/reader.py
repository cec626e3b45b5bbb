"""Reads changelogs: one client for all tasks of a worker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import (
    BrokerUnreachableError,
    StoreOutdatedError,
    TopicMissingError,
)

__all__ = ["ChangelogReader", "Source"]

Source = tuple[str, int]
"""A changelog's topic and partition."""

_FETCH: Final = {
    "enable.auto.commit": False,
    # A position that is not in the log is a verdict to be taken, never an offset to be made up.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 20,
    "queued.min.messages": 500_000,
    # The default pause of a second after every full queue would be most of a restore.
    "fetch.queue.backoff.ms": 5,
    "allow.auto.create.topics": False,
}


class ChangelogReader:
    """Follows any number of changelog partitions from given offsets, committed records only.

    Args:
        connection: the cluster.
        group: the application's consumer group; nothing is committed by this client.
        settings: how much it may fetch.
    """

    def __init__(self, connection: KafkaConnection, group: str, settings: RestoreSettings | None = None) -> None:
        settings = settings or RestoreSettings()
        self._bootstrap = connection.bootstrap_servers
        self._config = (
            connection.to_client_config()
            | _FETCH
            | settings.to_consumer_config()
            | {"group.id": group, "client.id": f"{group}-changelog-reader"}
        )
        self.consumer = Consumer(self._config)
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

    def bounds(self, source: Source, position: int | None = None, timeout_s: float = 10.0) -> tuple[int, int]:
        """First offset that the log still has, and the one after its last, as the broker tells now.

        The last is the last of those transactions that have their end marker. A commit returns before its marker is
        written, so a store may stand beyond for a moment.

        Args:
            source: topic and partition.
            position: of a store. If it lies beyond, the second bound is the end of all that lies there instead.
            timeout_s: deadline.

        Raises:
            TopicMissingError: there is no such partition.
            BrokerUnreachableError: no broker answered in time.
        """
        low, high = self._watermarks(self.consumer, source, timeout_s)
        if position is not None and position > high:
            everything = Consumer(self._config | {"isolation.level": "read_uncommitted"})
            try:
                low, high = self._watermarks(everything, source, timeout_s)
            finally:
                everything.close()
        return low, high

    def _watermarks(self, consumer: Consumer, source: Source, timeout_s: float) -> tuple[int, int]:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(*source), timeout=timeout_s)
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

    def read(self, max_records: int, timeout_s: float, before: int | None = None) -> Mapping[Source, ChangelogBatch]:
        """What has come, by partition; at most `max_records` in all, waiting at most `timeout_s`.

        With `before`, records from that offset on are left out; ``next_offset`` tells that they came.

        A partition that cannot be read has the reason in its batch's ``error``: `StoreOutdatedError` when the offset
        is not in the log any more, `TopicMissingError` when the changelog is gone.
        """
        batches: dict[Source, ChangelogBatch] = {}
        messages = self.consumer.consume(max_records, timeout_s)
        # Records of one partition come in runs. In a large restore all are of one and none is an event: two tests a
        # record would be a tenth of its cost.
        alone = len(self._assigned) == 1 and {_source(m) for m in messages[:1] + messages[-1:]} == self._assigned
        for source, run in [(_source(messages[0]), messages)] if alone else _runs(messages):
            if source not in self._assigned:
                continue
            batch = batches.setdefault(source, ChangelogBatch())
            events = [at for at, message in enumerate(run) if message.error() is not None]
            begin = 0
            for at in [*events, len(run)]:
                if at > begin:
                    batch.add(run[begin:at], before)
                if at < len(run):
                    self._take_event(source, run[at], batch)
                begin = at + 1
        for source, batch in batches.items():
            # Known without asking: it comes with every fetch.
            _, end = self.consumer.get_watermark_offsets(TopicPartition(*source), cached=True)
            batch.known_end = end if end >= 0 else None
        return batches

    def _take_event(self, source: Source, event: Message, batch: ChangelogBatch) -> None:
        error = event.error()
        if error is None:
            return  # never: the caller asked; for the type checker
        if error.code() == KafkaError._PARTITION_EOF:
            batch.next_offset = max(batch.next_offset, event.offset() or 0)
            batch.at_end = True
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            batch.error = StoreOutdatedError(
                f"The position in {source[0]}[{source[1]}] is not in the log any more ({error.str()}): the store "
                "is restored afresh."
            )
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            batch.error = TopicMissingError(
                f"Changelog {source[0]}[{source[1]}] is gone ({error.str()}): it was deleted while in use."
            )
        elif error.fatal():
            raise KafkaException(error)

    def close(self) -> None:
        """Leave the cluster."""
        self.consumer.close()


def _source(message: Message) -> Source:
    return str(message.topic()), int(message.partition() or 0)


def _runs(messages: Sequence[Message]) -> Iterator[tuple[Source, Sequence[Message]]]:
    for source, run in itertools.groupby(messages, _source):
        yield source, list(run)
