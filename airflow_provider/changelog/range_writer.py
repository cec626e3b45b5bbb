"""Turns a range of a changelog's offsets into SST files, in whichever process runs it."""

from __future__ import annotations

from pathlib import Path

from airflow_provider.changelog.batch import ChangelogBatch, uncommitted_since
from airflow_provider.changelog.range_reader import read_range
from airflow_provider.changelog.reader import ChangelogPartition, ChangelogReader
from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.changelog.sst_range import SstRange
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.sst_file import write_sst

__all__ = ["write_range"]

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
    for batch in read_range(reader, partition, reached, end, settings):
        reached = batch.next_offset
        pending.update(zip(batch.keys, batch.values, strict=True))
        pending_bytes += batch.record_bytes + batch.records * _ENTRY_OVERHEAD_BYTES
        whole.records += batch.records
        whole.record_bytes += batch.record_bytes
        whole.uncommitted_from = uncommitted_since(whole.uncommitted_from, batch.commit, batch.uncommitted_from)
        whole.commit = batch.commit or whole.commit
        whole.timestamp_ms = batch.timestamp_ms or whole.timestamp_ms
        if pending_bytes > room:
            files.append(_write(folder, begin, len(files), pending, options))
            pending, pending_bytes = {}, 0
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
        uncommitted_from=whole.uncommitted_from,
    )


def _write(folder: Path, begin: int, number: int, changes: dict[bytes, bytes | None], options: RocksDBOptions) -> str:
    path = folder / f"{begin}-{number}.sst"
    path.unlink(missing_ok=True)  # of an attempt that did not end
    write_sst(path, changes, options)
    return str(path)
