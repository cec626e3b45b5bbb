"""Reads changelogs, of all tasks of a worker at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.restore_settings import RestoreSettings, Throttle
from airflow_provider.errors import BrokerUnreachableError, StatefulStreamsError, StoreOutdatedError, TopicMissingError
from airflow_provider.kafka.broker_error import ConnectionErrors, ask_leader, damage_at, is_cut, refusal, refused_topic
from airflow_provider.kafka.column_consumer import ColumnConsumer, PartitionEvent, by_partition
from airflow_provider.kafka.connection import KafkaConnection

ChangelogPartition = tuple[str, int]

_FETCH: Final = {
    # A position that is not in the log is a verdict to be taken, never an offset to be made up.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # Unlike Java's, this client takes a record for good without.
    "check.crcs": True,
    "fetch.wait.max.ms": 20,
    "queued.min.messages": 500_000,
    # The default pause of a second after every full queue would be most of a restore.
    "fetch.queue.backoff.ms": 5,
    "allow.auto.create.topics": False,
}
_REASON_S: Final = 0.5
"""For so long a leader is asked only to learn why it cannot be reached."""


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
        config = connection.to_client_config() | {"group.id": group, "client.id": f"{group}-changelog-reader"}
        self._errors = ConnectionErrors(connection, logs=False)
        all_written = {"isolation.level": "read_uncommitted", "enable.auto.commit": False, "error_cb": self._errors}
        self.consumer = Consumer(config | all_written)
        """Reads nothing: knows the group, the end of all that is written, and why its connections fail."""
        self._columns_config = config | _FETCH | settings.to_consumer_config()
        self._columns = ColumnConsumer(self._columns_config)
        self._assigned: dict[ChangelogPartition, int] = {}

    @property
    def assigned(self) -> Collection[ChangelogPartition]:
        """What is read now; a view."""
        return self._assigned.keys()

    def add(self, partition: ChangelogPartition, offset: int) -> None:
        """Read a partition from `offset` on."""
        self.remove(partition)
        self._columns.assign({partition: offset})
        self._assigned[partition] = offset

    def remove(self, partition: ChangelogPartition) -> None:
        """Stop reading a partition."""
        if partition in self._assigned:
            self._columns.unassign([partition])
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
        low, high = self._readable(partition, timeout_s)
        return (low, high) if position <= high else self._written(partition, timeout_s)

    def ends(self, partition: ChangelogPartition, timeout_s: float = 10.0) -> ChangelogEnds:
        """What the partition holds, and how much of it can be read: two requests, each within `timeout_s`.

        Raises:
            TopicMissingError: there is no such partition.
            ConfigurationError: it may not be read.
            BrokerUnreachableError: no broker answered in time.
        """
        low, stable = self._readable(partition, timeout_s)
        _, written = self._written(partition, timeout_s)
        return ChangelogEnds(low, stable, max(stable, written))

    def _readable(self, partition: ChangelogPartition, timeout_s: float) -> tuple[int, int]:
        return self._ask(lambda left_s: self._columns.bounds(partition, left_s), partition, timeout_s)

    def _written(self, partition: ChangelogPartition, timeout_s: float) -> tuple[int, int]:
        at = TopicPartition(*partition)
        return self._ask(lambda left_s: self.consumer.get_watermark_offsets(at, timeout=left_s), partition, timeout_s)

    def _ask(
        self, ask: Callable[[float], tuple[int, int]], partition: ChangelogPartition, timeout_s: float
    ) -> tuple[int, int]:
        self.consumer.poll(0)
        try:
            low, high = ask_leader(ask, timeout_s)
        except KafkaException as error:
            what = f"Reading {partition[0]}[{partition[1]}]"
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                if (refused := refused_topic(self.consumer, partition[0], what, timeout_s)) is not None:
                    self._begin_anew()
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
            self._find_reason(partition)
            raise self._errors.unreachable(
                f"No broker of {self._bootstrap} reported the bounds of {partition[0]}[{partition[1]}] within "
                f"{timeout_s:g} s",
                error.args[0].str(),
                "check that the brokers answer.",
            ) from error
        return int(low), int(high)

    def _begin_anew(self) -> None:
        """Read with another client: one that may not see a topic says for 15 min that there is none."""
        self._columns.close()
        self._columns = ColumnConsumer(self._columns_config)
        if self._assigned:
            self._columns.assign(self._assigned)

    def _find_reason(self, partition: ChangelogPartition) -> None:
        """Take note of why connections fail: where none is known, of that to the partition's leader."""
        self.consumer.poll(0)
        if not self._errors.known:
            with contextlib.suppress(KafkaException):
                self.consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_REASON_S)
            self.consumer.poll(0)

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
        self.consumer.poll(0)  # takes note of why its connections fail, as long as that is new
        columns = self._columns.read(max_records, timeout_s=timeout_s)
        batches = {
            partition: _batch(partition, rows, before)
            for topic, of_topic in columns.rows.items()
            for number, rows in by_partition(of_topic)
            if (partition := (topic, number)) in self._assigned
        }
        for event in columns.events:
            partition = event.topic, event.partition
            if partition in self._assigned:
                batch = batches.setdefault(partition, ChangelogBatch())
                if batch.error is None:
                    self._take_event(partition, event, batch)
        for partition in columns.left_out:
            if partition in self._assigned and batches[partition].error is None:
                self.add(partition, self._position(partition, batches[partition]))
        for partition, batch in batches.items():
            batch.known_end = self._columns.known_end(partition)
            if batch.error is not None:
                self.remove(partition)
            elif partition in self._assigned:
                self._assigned[partition] = self._position(partition, batch)
        return batches

    def _take_event(self, partition: ChangelogPartition, event: PartitionEvent, batch: ChangelogBatch) -> None:
        error = event.error
        if error.code() == KafkaError._PARTITION_EOF:
            if event.offset >= batch.next_offset:
                batch.next_offset, batch.at_end = event.offset, True
        elif (damaged := damage_at(f"Offset {event.offset} of {partition[0]}[{partition[1]}]", error)) is not None:
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
        # Anything else passes.

    def _position(self, partition: ChangelogPartition, batch: ChangelogBatch) -> int:
        return max(self._assigned[partition], batch.next_offset)

    def _judge_position(self, partition: ChangelogPartition, error: KafkaError, batch: ChangelogBatch) -> None:
        """Whether the position is not in the log: behind a damaged record librdkafka asks for offsets of its own."""
        position = self._position(partition, batch)
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
        self._assigned.clear()
        self._columns.close()
        self.consumer.close()


def _batch(partition: ChangelogPartition, rows: pa.RecordBatch, before: int | None) -> ChangelogBatch:
    keys, values, offsets = (rows.column(name) for name in ("__source_key", "__value", "__offset"))
    return ChangelogBatch.of(keys, values, offsets, f"{partition[0]}[{partition[1]}]", before)


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
            if found is None or not (found.next_offset or found.at_end or found.error):
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
