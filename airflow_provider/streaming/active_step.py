"""The active step: what a worker does with one task's rows of a micro-batch.

The order is the guarantee; the numbers are those of the protocol in ``docs/protocol.md``:

1. own the task and restore it (`Task.own`, `Slot`): done before a row gets here
2. drop rows below the position that the store recorded
3. read the old values of the batch's distinct keys at once, compute
4. one Kafka transaction (`TransactionalWriter.commit`)
5. one RocksDB write batch (`Task.write`)
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer

from airflow_provider.errors import DecodeError, ProcessError, RecordError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.streaming.json_decoder import JsonDecoder
from airflow_provider.streaming.operation import Changes
from airflow_provider.streaming.task import Task

__all__ = ["active_step"]


def active_step(task: Task, rows: pa.Table, group: Consumer) -> int:
    """Process one task's rows of a micro-batch, exactly once however often they come.

    Args:
        task: owned and restored.
        rows: in the order of the offsets, with the columns ``__offset`` and ``__source_key``, and, where Spark has
            decoded them, ``__filtered`` (index of the filter that drops the row, or null), ``__corrupt`` (why the
            value does not decode, or null), ``__key`` and those of the operation; else ``__value``.
        group: consumer whose group gets the offsets.

    Returns:
        How many rows were new.

    Raises:
        RecordError: a record cannot be processed; nothing of the batch was written.
        FencedError: a newer owner exists; nothing was written.
    """
    # 2. what the store stands for already changes nothing
    recorded = task.source_offset
    if recorded is not None:
        rows = rows.filter(pc.greater_equal(rows.column("__offset"), recorded))
    if rows.num_rows == 0:
        return 0
    next_offset = int(rows.column("__offset")[-1].as_py()) + 1
    if task.job.decoder is not None:
        rows = _decoded(task.job.decoder, task.job.key_name, rows)
    kept, filtered = _without_filtered(task, rows)
    _check(task, kept)
    # 3. read and compute
    changes = Changes([], [])
    if kept.num_rows:
        try:
            grouped = task.job.operation.group(task.job.key_name, kept)
            changes = grouped.apply(task.replica.store.get_many(grouped.keys))
        except ProcessError as error:
            raise ProcessError(task.job.source_topic, task.number, error.offset, error.key, error.reason) from error
        except pa.ArrowInvalid as error:
            if (culprit := _without_text(task, kept)) is None:
                raise
            raise culprit from error
    # 4. and 5.
    task.write(changes, next_offset, rows.num_rows, filtered, group)
    return int(rows.num_rows)


def _decoded(decoder: JsonDecoder, key_name: str, rows: pa.Table) -> pa.Table:
    decoded = decoder.decode(rows.column("__value").to_pylist())
    why = pa.array([decoded.bad.get(at) for at in range(rows.num_rows)], pa.string()) if decoded.bad else None
    return pa.table(
        {
            "__offset": rows.column("__offset"),
            "__source_key": rows.column("__source_key"),
            "__filtered": pa.nulls(rows.num_rows, pa.int8()),
            "__corrupt": pa.nulls(rows.num_rows, pa.string()) if why is None else why,
            "__key": decoded.columns[key_name].cast(pa.string()).cast(pa.binary()),
            **decoded.columns,
        }
    )


def _without_filtered(task: Task, rows: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    column = rows.column("__filtered")
    if column.null_count == rows.num_rows:
        return rows, {}
    counts = pc.value_counts(column.combine_chunks().drop_null()).to_pylist()
    names = task.job.filters
    return rows.filter(pc.is_null(column)), {names[c["values"]]: c["counts"] for c in counts}


def _check(task: Task, rows: pa.Table) -> None:
    topic, number = task.job.source_topic, task.number
    corrupt = rows.filter(pc.is_valid(rows.column("__corrupt")))
    if corrupt.num_rows:
        first = corrupt.slice(0, 1)
        raise DecodeError(
            topic,
            number,
            first.column("__offset")[0].as_py(),
            _text(first.column("__source_key")[0].as_py()),
            f"{first.column('__corrupt')[0].as_py()}: mend the schema or the producer",
        )
    keys = rows.column("__key")
    if keys.null_count:
        bad = rows.filter(pc.is_null(keys)).slice(0, 1)
        raise RecordError(
            topic,
            number,
            bad.column("__offset")[0].as_py(),
            None,
            f"the key column {task.job.key_name!r} is null: filter such records out, or give them a key",
        )
    reserved = pc.starts_with(keys, pattern=RESERVED_PREFIX)
    if pc.any(reserved).as_py():
        bad = rows.filter(reserved).slice(0, 1)
        raise RecordError(
            topic,
            number,
            bad.column("__offset")[0].as_py(),
            _text(bad.column("__key")[0].as_py()),
            f"the key begins with {RESERVED_PREFIX!r}, which the changelog keeps for itself: choose another key",
        )


def _without_text(task: Task, rows: pa.Table) -> RecordError | None:
    """The error of the first key that is no text; looked for when something failed, because a cast tests them all."""
    for offset, key in zip(rows.column("__offset").to_pylist(), rows.column("__key").to_pylist(), strict=True):
        try:
            key.decode()
        except UnicodeDecodeError:
            reason = "the key is not UTF-8, so no output can name it: group by hex(key) or another text"
            return RecordError(task.job.source_topic, task.number, offset, _text(key), reason)
    return None


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "replace")
