"""The entry into a Python worker that writes SST files of a range: thin, because Spark pickles it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from airflow_provider.changelog.range_writer import write_range
from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.changelog.sst_range import SstRange
from airflow_provider.common.task_id import TaskId
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.gc_control import no_collection

__all__ = ["RANGE_SCHEMA", "decode_range", "write"]

RANGE_SCHEMA = "range binary"

_reader: ChangelogReader | None = None
_of: tuple[str, str, int] | None = None


def write(
    settings: InstanceSettings,
    job: StageSpec,
    task: TaskId,
    begin: int,
    end: int,
    folder: str,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``, over one row: write a range of a task's changelog, yield its `SstRange`."""
    for _ in batches:
        pass
    store = job.store.name
    partition = job.changelog, task.partition
    with no_collection():
        found = write_range(
            _current(settings, job), store, partition, begin, end, Path(folder), job.store.rocksdb, job.restore
        )
    yield pa.RecordBatch.from_pydict({"range": [msgspec.json.encode(found)]})


def decode_range(raw: bytes) -> SstRange:
    """What `write` yielded."""
    return msgspec.json.decode(raw, type=SstRange)


def _current(settings: InstanceSettings, job: StageSpec) -> ChangelogReader:
    global _reader, _of  # a connection costs as much as ten thousand records
    of = (job.application_id, settings.instance, settings.incarnation)
    if _reader is None or _of != of:
        _reader, _of = ChangelogReader(settings.connection, job.application_id, job.restore), of
    return _reader
