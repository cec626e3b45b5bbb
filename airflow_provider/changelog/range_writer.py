"""Turns a range of a changelog's offsets into table files, in whichever process runs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.reader import ChangelogReader, Source
from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.changelog.table_range import TableRange
from airflow_provider.changelog.throttle import Throttle
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.table_file import write_table

__all__ = ["write_range"]

_SILENCE_S = 30.0
_POLL_S = 0.1
# A key, its value and its place in a dict, in Python's memory, beside their bytes.
_ENTRY_OVERHEAD_BYTES = 250


def write_range(
    reader: ChangelogReader,
    source: Source,
    begin: int,
    end: int,
    folder: Path,
    options: RocksDBOptions,
    settings: RestoreSettings,
) -> TableRange:
    """Read committed records and write the last value of each key, sorted.

    Memory is bounded by ``settings.memory_bytes / settings.parallelism``: a range that holds more becomes more files.

    Args:
        reader: that reads nothing else.
        source: topic and partition.
        begin: first offset; what the log has lost before its start is passed over.
        end: offset to stop before. Where the log ends before, so does what is returned.
        folder: for the files; made when missing.
        options: of the store.
        settings: of the restore.

    Raises:
        BrokerUnreachableError: nothing came for 30 s.
        StatefulStreamsError: the changelog cannot be read.
        OSError: the disk does not take the files.
    """
    low, _ = reader.bounds(source)
    folder.mkdir(parents=True, exist_ok=True)
    room = settings.memory_bytes // (settings.parallelism or 1) // 2
    whole = ChangelogBatch()
    files: list[str] = []
    pending: dict[bytes, bytes | None] = {}
    pending_bytes = 0
    reached = max(begin, low)
    reader.add(source, reached)
    try:
        for batch in _batches(reader, source, end, settings):
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
        reader.remove(source)
    if pending:
        files.append(_write(folder, begin, len(files), pending, options))
    commit = None if whole.commit is None else whole.commit.decode()
    return TableRange(
        begin, min(end, reached), tuple(files), whole.records, whole.record_bytes, commit, whole.timestamp_ms
    )


def _batches(reader: ChangelogReader, source: Source, end: int, settings: RestoreSettings) -> Iterator[ChangelogBatch]:
    throttle = Throttle(settings.max_bytes_per_s and max(1, settings.max_bytes_per_s // (settings.parallelism or 1)))
    record_bytes: float | None = None
    silent_since = time.monotonic()
    while True:
        time.sleep(throttle.wait_s(time.monotonic()))
        found = reader.read(settings.poll_records(record_bytes), _POLL_S, before=end).get(source)
        now = time.monotonic()
        if found is None:
            if now - silent_since > _SILENCE_S:
                raise BrokerUnreachableError(
                    f"Nothing of {source[0]}[{source[1]}] came for {_SILENCE_S:g} s, before offset {end} was reached: "
                    "check that the brokers answer."
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
    write_table(path, changes, options)
    return str(path)
