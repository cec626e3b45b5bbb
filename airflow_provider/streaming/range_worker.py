"""The entry into a Python worker that writes table files of a range: thin, because Spark pickles it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from airflow_provider.changelog.range_writer import write_range
from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.changelog.table_range import TableRange
from airflow_provider.names import changelog_topic
from airflow_provider.streaming.garbage import no_collection
from airflow_provider.streaming.plan import JobSpec
from airflow_provider.streaming.settings import InstanceSettings

__all__ = ["RANGE_SCHEMA", "decode_range", "write"]

RANGE_SCHEMA = "range binary"

_reader: ChangelogReader | None = None
_of: tuple[str, str, int] | None = None


def write(
    settings: InstanceSettings,
    job: JobSpec,
    task: int,
    begin: int,
    end: int,
    folder: str,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``, over one row: write a range of a task's changelog, yield its `TableRange`."""
    for _ in batches:
        pass
    source = changelog_topic(job.application_id, job.store), task
    with no_collection():
        found = write_range(_current(settings, job), source, begin, end, Path(folder), job.rocksdb, job.restore)
    yield pa.RecordBatch.from_pydict({"range": [msgspec.json.encode(found)]})


def decode_range(raw: bytes) -> TableRange:
    """What `write` yielded."""
    return msgspec.json.decode(raw, type=TableRange)


def _current(settings: InstanceSettings, job: JobSpec) -> ChangelogReader:
    global _reader, _of  # a connection costs as much as ten thousand records
    of = (job.application_id, settings.instance, settings.incarnation)
    if _reader is None or _of != of:
        _reader, _of = ChangelogReader(settings.connection, job.application_id, job.restore), of
    return _reader
