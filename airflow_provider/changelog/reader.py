"""Reads changelogs: one client for all tasks of a worker."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.restore_settings import RestoreSettings, Throttle
from airflow_provider.errors import BrokerUnreachableError, StatefulStreamsError, StoreOutdatedError, TopicMissingError
from airflow_provider.kafka.broker_error import ConnectionErrors, ask_leader, damage, is_cut, refusal, refused_topic
from airflow_provider.kafka.connection import KafkaConnection

ChangelogPartition = tuple[str, int]

_FETCH: Final = {
    "enable.auto.commit": False,
    # A position that is not in the log is a verdict to be taken, never an offset to be made up.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # Unlike Java's, this client takes a record for good without.
    "check.crcs": True,
    "fetch.wait.max.ms": 20,
    "queued.min.messages": 500_000,
    # The default pause of a second after every full queue would be most of a restore.
    "fetch.queue.backoff.ms": 5,
    "allow.auto.create.topics": False,
}


@dataclass(frozen=True)
class ChangelogEnds:
    """What a partition of a changelog holds, as the broker knows it at one moment.

    Args:
        low: offset of the first record that the log still has.
        stable: offset after the last record that can be read: that of the first transaction without an end.
        written: offset after the last record that was written.
    """

    low: int
    stable: int
    written: int

    @property
    def readable(self) -> bool:
        """Whether no transaction without an end hides a part of it."""
        return self.stable == self.written

    def end_for(self, position: int) -> int:
        """How far a store at `position` has to read; beyond what is stable where it stands there.

        A commit returns before its marker is written, so a store may stand beyond for a moment.
        """
        return self.written if position > self.stable else self.stable


class ChangelogReader:
    """Follows any number of changelog partitions from given offsets, committed records only.

    Args:
        group: the application's consumer group; nothing is committed by this client.
    """

    def __init__(self, connection: KafkaConnection, group: str, settings: RestoreSettings | None = None) -> None:
        settings = settings or RestoreSettings()
        self._bootstrap = connection.bootstrap_servers
        self._config: dict[str, Any] = (
            connection.to_client_config()
            | _FETCH
            | settings.to_consumer_config()
            | {"group.id": group, "client.id": f"{group}-changelog-reader"}
        )
        self._errors = ConnectionErrors(connection, logs=False)
        self._config["error_cb"] = self._errors
        self.consumer = Consumer(self._config)
        self._everything: Consumer | None = None
        self._assigned: dict[ChangelogPartition, int] = {}

    @property
    def assigned(self) -> Collection[ChangelogPartition]:
        """What is read now; a view."""
        return self._assigned.keys()

    def add(self, partition: ChangelogPartition, offset: int) -> None:
        """Read a partition from `offset` on."""
        self.remove(partition)
        self.consumer.incremental_assign([TopicPartition(*partition, offset)])
        self._assigned[partition] = offset

    def remove(self, partition: ChangelogPartition) -> None:
        """Stop reading a partition."""
        if partition in self._assigned:
            self.consumer.incremental_unassign([TopicPartition(*partition)])
            del self._assigned[partition]

    def bounds(self, partition: ChangelogPartition, position: int = 0, timeout_s: float = 10.0) -> tuple[int, int]:
        """First offset that the log still has, and the one after its last, as the broker knows them now.

        The last is the last of those transactions that have their end marker.

        Args:
            position: of a store; 0 where it has none. If it lies beyond, the second bound is the end of all that lies
                there instead.

        Raises:
            TopicMissingError: there is no such partition.
            ConfigurationError: it may not be read.
            BrokerUnreachableError: no broker answered in time.
        """
        low, high = self._watermarks(self.consumer, partition, timeout_s)
        if position > high:
            low, high = self._watermarks(self._uncommitted(), partition, timeout_s)
        return low, high

    def ends(self, partition: ChangelogPartition, timeout_s: float = 10.0) -> ChangelogEnds:
        """What the partition holds, and how much of it can be read: two requests, each within `timeout_s`.

        Raises:
            TopicMissingError: there is no such partition.
            ConfigurationError: it may not be read.
            BrokerUnreachableError: no broker answered in time.
        """
        low, stable = self._watermarks(self.consumer, partition, timeout_s)
        _, written = self._watermarks(self._uncommitted(), partition, timeout_s)
        return ChangelogEnds(low, stable, max(stable, written))

    def _uncommitted(self) -> Consumer:
        """A client that knows the end of what is written, kept: to connect is most of what an answer costs."""
        if self._everything is None:
            self._everything = Consumer(self._config | {"isolation.level": "read_uncommitted"})
        return self._everything

    def _watermarks(self, consumer: Consumer, partition: ChangelogPartition, timeout_s: float) -> tuple[int, int]:
        try:
            low, high = ask_leader(
                lambda left_s: consumer.get_watermark_offsets(TopicPartition(*partition), timeout=left_s), timeout_s
            )
        except KafkaException as error:
            what = f"Reading {partition[0]}[{partition[1]}]"
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                if (refused := refused_topic(self.consumer, partition[0], what, timeout_s)) is not None:
                    raise refused from error
                raise TopicMissingError(
                    f"Changelog {partition[0]}[{partition[1]}] does not exist. If the application never ran, run "
                    "CreateChangelogTopicsOperator, or 'stateful-streams topics repair JOB.py --apply'. If it ran, "
                    "the stores are all that is left of its state: stop its instances and follow 'Changelog "
                    "missing or mismatched' in the runbook (python -m "
                    "airflow_provider.streaming.changelog_rebuild APPLICATION --state-dir FOLDER)."
                ) from error
            if (refused := refusal(error.args[0], what)) is not None:
                raise refused from error
            if consumer is self._everything or not self._assigned:
                consumer.poll(0)  # hands over why its connections failed, and no record
            raise self._errors.unreachable(
                f"No broker of {self._bootstrap} reported the bounds of {partition[0]}[{partition[1]}] within "
                f"{timeout_s:g} s",
                error.args[0].str(),
                "check that the brokers answer.",
            ) from error
        return int(low), int(high)

    def read(
        self, max_records: int, timeout_s: float, before: int | None = None
    ) -> Mapping[ChangelogPartition, ChangelogBatch]:
        """What has come, by partition; at most `max_records` in all, waiting at most `timeout_s`.

        With `before`, records from that offset on are left out; ``next_offset`` shows that they came.

        A partition that cannot be read has the reason in its batch's ``error``, and is not read any further until it
        is added again: `StoreOutdatedError` when the offset is not in the log any more, `TopicMissingError` when the
        changelog is gone, `TopicDamagedError` when a record is not what was written, `ConfigurationError` when it may
        not be read.
        """
        batches: dict[ChangelogPartition, ChangelogBatch] = {}
        messages = self.consumer.consume(max_records, timeout_s)
        # Records of one partition come in runs. In a large restore all are of one and none is an event: two tests a
        # record would be a tenth of its cost.
        alone = (
            len(self._assigned) == 1
            and {_partition_of(m) for m in messages[:1] + messages[-1:]} == self._assigned.keys()
        )
        for partition, run in [(_partition_of(messages[0]), messages)] if alone else _runs(messages):
            if partition not in self._assigned:
                continue
            self._take_run(partition, run, batches.setdefault(partition, ChangelogBatch()), before)
        for partition, batch in batches.items():
            # Known without asking: it comes with every fetch.
            _, end = self.consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
            batch.known_end = end if end >= 0 else None
            if batch.error is not None:
                self.remove(partition)
            elif partition in self._assigned:
                self._assigned[partition] = max(self._assigned[partition], batch.next_offset)
        return batches

    def _take_run(
        self, partition: ChangelogPartition, run: Sequence[Message], batch: ChangelogBatch, before: int | None
    ) -> None:
        """Add a run of one partition's messages, up to an error: behind a damaged record librdkafka reads anything."""
        events = [at for at, message in enumerate(run) if message.error() is not None]
        begin = 0
        for at in [*events, len(run)]:
            if at > begin and batch.error is None:
                batch.add(run[begin:at], before)
            if at < len(run) and batch.error is None:
                self._take_event(partition, run[at], batch)
            begin = at + 1

    def _take_event(self, partition: ChangelogPartition, event: Message, batch: ChangelogBatch) -> None:
        error = event.error()
        if error is None:
            return  # never: the caller asked; for the type checker
        if error.code() == KafkaError._PARTITION_EOF:
            batch.next_offset = max(batch.next_offset, event.offset() or 0)
            batch.at_end = True
        elif (damaged := damage(event)) is not None:
            batch.error = damaged
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._judge_position(partition, error, batch)
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            batch.error = TopicMissingError(
                f"Changelog {partition[0]}[{partition[1]}] is gone ({error.str()}): it was deleted while in use. "
                "Do not create an empty one: restore it, see the runbook."
            )
        elif (refused := refusal(error, f"Reading {partition[0]}[{partition[1]}]")) is not None:
            batch.error = refused
        elif error.fatal():
            raise KafkaException(error)

    def _judge_position(self, partition: ChangelogPartition, error: KafkaError, batch: ChangelogBatch) -> None:
        """Whether the position is not in the log: behind a damaged record librdkafka asks for offsets of its own."""
        position = max(self._assigned[partition], batch.next_offset)
        if is_cut(error):
            batch.error = StoreOutdatedError(
                f"A new leader of {partition[0]}[{partition[1]}] lacks records before the position {position} "
                f"({error.str()}): the store is restored afresh."
            )
            return
        try:
            low, high = self.bounds(partition, position)
        except StatefulStreamsError as unknown:
            batch.error = unknown
            return
        if low <= position <= high:
            self.add(partition, position)
        else:
            batch.error = StoreOutdatedError(
                f"The position {position} in {partition[0]}[{partition[1]}] is not in the log any more ({low} "
                f"to {high}; {error.str()}): the store is restored afresh."
            )

    def close(self) -> None:
        """Leave the cluster."""
        self.consumer.close()
        if self._everything is not None:
            self._everything.close()


def _partition_of(message: Message) -> ChangelogPartition:
    return str(message.topic()), int(message.partition() or 0)


def _runs(messages: Sequence[Message]) -> Iterator[tuple[ChangelogPartition, Sequence[Message]]]:
    for partition, run in itertools.groupby(messages, _partition_of):
        yield partition, list(run)


_SILENCE_S: Final = 30.0
_POLL_S: Final = 0.1


class PartitionReader(Protocol):
    """Reads partitions of changelogs, as `ChangelogReader` does."""

    def add(self, partition: ChangelogPartition, offset: int) -> None: ...
    def remove(self, partition: ChangelogPartition) -> None: ...
    def read(
        self, max_records: int, timeout_s: float, before: int | None = None
    ) -> Mapping[ChangelogPartition, ChangelogBatch]: ...


def read_range(
    reader: PartitionReader,
    partition: ChangelogPartition,
    begin: int,
    end: int,
    settings: RestoreSettings,
    *,
    await_end: bool = False,
) -> Iterator[ChangelogBatch]:
    """The committed records of a range of offsets, in pieces.

    Args:
        reader: that reads nothing else.
        begin: first offset, which the log still has.
        end: offset to stop before.
        await_end: whether the rest is waited for where the log ends before: a commit returns before its marker is
            written, and its records can be read. Otherwise the range ends there, too.

    Raises:
        BrokerUnreachableError: nothing came for 30 s.
        StatefulStreamsError: the changelog cannot be read.
    """
    throttle = Throttle(settings.max_bytes_per_s)
    record_bytes: float | None = None
    silent_since = time.monotonic()
    reader.add(partition, begin)
    try:
        while True:
            time.sleep(throttle.wait_s(time.monotonic()))
            found = reader.read(settings.poll_records(record_bytes), _POLL_S, before=end).get(partition)
            now = time.monotonic()
            if found is None:
                if now - silent_since > _SILENCE_S:
                    raise BrokerUnreachableError(
                        f"No record of {partition[0]}[{partition[1]}] arrived for {_SILENCE_S:g} s, before offset "
                        f"{end} was reached: check that the brokers answer."
                    )
                continue
            silent_since = now
            if found.records:
                record_bytes = found.record_bytes / found.records
                throttle.took(found.record_bytes, now)
            yield found
            if found.error is not None:
                raise found.error
            if found.next_offset >= end or (found.at_end and not await_end):
                return
    finally:
        reader.remove(partition)


def holds_records(reader: PartitionReader, partition: ChangelogPartition, begin: int, end: int) -> bool:
    """Whether a range of offsets holds a committed record, and not only the ends of transactions; as `read_range`."""
    return any(batch.records for batch in read_range(reader, partition, begin, end, RestoreSettings()))
