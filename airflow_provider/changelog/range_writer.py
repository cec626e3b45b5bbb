"""Turns a range of a changelog's offsets into SST files, in whichever process runs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.reader import ChangelogPartition, ChangelogReader
from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.changelog.sst_range import SstRange
from airflow_provider.changelog.throttle import Throttle
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.sst_file import write_sst

__all__ = ["write_range"]

_SILENCE_S = 30.0
_POLL_S = 0.1
# A key, its value and its place in a dict, in Python's memory, beside their bytes.
_ENTRY_OVERHEAD_BYTES = 250


def write_range(
    reader: ChangelogReader,
    store: str,
    partition: ChangelogPartition,
    begin: int,
    end: int,
    folder: Path,
    options: RocksDBOptions,
    settings: RestoreSettings,
) -> SstRange:
    """Read committed records and write the last value of each key, sorted.

    Memory is bounded by ``settings.memory_bytes / settings.parallelism``: a range that holds more becomes more files.

    Args:
        reader: that reads nothing else.
        store: whose changes these are.
        partition: topic and partition of its changelog.
        begin: first offset; what the log has lost before its start is skipped.
        end: offset to stop before. Where the log ends before, so does what is returned.
        folder: for the files; made when missing.
        options: of the store.
        settings: of the restore.

    Raises:
        BrokerUnreachableError: nothing came for 30 s.
        StatefulStreamsError: the changelog cannot be read.
        OSError: the disk does not take the files.
    """
    low, _ = reader.bounds(partition)
    folder.mkdir(parents=True, exist_ok=True)
    room = settings.memory_bytes // (settings.parallelism or 1) // 2
    whole = ChangelogBatch()
    files: list[str] = []
    pending: dict[bytes, bytes | None] = {}
    pending_bytes = 0
    reached = max(begin, low)
    reader.add(partition, reached)
    try:
        for batch in _batches(reader, partition, end, settings):
            reached = batch.next_offset
            pending.update(zip(batch.keys, batch.values, strict=True))
            pending_bytes += batch.record_bytes + batch.records * _ENTRY_OVERHEAD_BYTES
            whole.records += batch.records
            whole.record_bytes += batch.record_bytes
            whole.commit = batch.commit or whole.commit
            whole.timestamp_ms = batch.timestamp_ms or whole.timestamp_ms
            if pending_bytes > room:
                files.append(_write(folder, begin, len(files), pending, options))
                pending, pending_bytes = {}, 0
    finally:
        reader.remove(partition)
    if pending:
        files.append(_write(folder, begin, len(files), pending, options))
    commit = None if whole.commit is None else whole.commit.decode()
    return SstRange(
        store=store,
        begin=begin,
        end=min(end, reached),
        files=tuple(files),
        records=whole.records,
        record_bytes=whole.record_bytes,
        commit=commit,
        timestamp_ms=whole.timestamp_ms,
    )


def _batches(
    reader: ChangelogReader, partition: ChangelogPartition, end: int, settings: RestoreSettings
) -> Iterator[ChangelogBatch]:
    throttle = Throttle(settings.max_bytes_per_s and max(1, settings.max_bytes_per_s // (settings.parallelism or 1)))
    record_bytes: float | None = None
    silent_since = time.monotonic()
    while True:
        time.sleep(throttle.wait_s(time.monotonic()))
        found = reader.read(settings.poll_records(record_bytes), _POLL_S, before=end).get(partition)
        now = time.monotonic()
        if found is None:
            if now - silent_since > _SILENCE_S:
                raise BrokerUnreachableError(
                    f"No record of {partition[0]}[{partition[1]}] arrived for {_SILENCE_S:g} s, before offset {end} "
                    "was reached: check that the brokers answer."
                )
            continue
        silent_since = now
        if found.records:
            record_bytes = found.record_bytes / found.records
            throttle.took(found.record_bytes, now)
        yield found
        if found.error is not None:
            raise found.error
        if found.at_end or found.next_offset >= end:
            return


def _write(folder: Path, begin: int, number: int, changes: dict[bytes, bytes | None], options: RocksDBOptions) -> str:
    path = folder / f"{begin}-{number}.sst"
    path.unlink(missing_ok=True)  # of an attempt that did not end
    write_sst(path, changes, options)
    return str(path)
