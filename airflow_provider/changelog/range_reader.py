"""Reads a changelog's records from one offset to another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.reader import ChangelogPartition
from airflow_provider.changelog.restore_settings import RestoreSettings, Throttle
from airflow_provider.errors import BrokerUnreachableError

_SILENCE_S: Final = 30.0
_POLL_S: Final = 0.1


class PartitionReader(Protocol):
    """Reads partitions of changelogs, as `ChangelogReader` does."""

    def add(self, partition: ChangelogPartition, offset: int) -> None:
        """Read a partition from `offset` on."""

    def remove(self, partition: ChangelogPartition) -> None:
        """Stop reading a partition."""

    def read(
        self, max_records: int, timeout_s: float, before: int | None = None
    ) -> Mapping[ChangelogPartition, ChangelogBatch]:
        """What has come, by partition (`ChangelogReader.read`)."""


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
        partition: topic and partition.
        begin: first offset, which the log still has.
        end: offset to stop before.
        settings: how much is read at once, and how fast.
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
