"""The active step: what a worker does with one task's rows of a micro-batch.

The order is the guarantee; the numbers are those of the protocol in ``docs/protocol.md``:

1. own the task and restore it (`Task.own`, `Slot`): done before a row gets here
2. drop rows below the position that the store recorded
3. read the old values of the batch's distinct keys at once, compute
4. one Kafka transaction (`TransactionalWriter.commit`)
5. one RocksDB write batch (`Task.write`)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer

from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.errors import ProcessError, RecordError
from airflow_provider.state.digest import digest_change
from airflow_provider.streaming.failure import Failure
from airflow_provider.streaming.operation import Changes
from airflow_provider.streaming.screening import screen
from airflow_provider.streaming.task import Task

__all__ = ["active_step"]


def active_step(task: Task, rows: pa.Table, group: Consumer) -> int:
    """Process one task's rows of a micro-batch, exactly once however often they come.

    Args:
        task: owned and restored.
        rows: in the order of the offsets, with the columns ``__offset``, ``__source_key``, ``__filtered`` (index of the
            filter that drops the row, or null), ``__corrupt`` (why the value does not decode, or null), ``__key`` and
            those of the operation; with a dead-letter topic ``__value`` and ``__timestamp_ms`` too.
        group: consumer whose group gets the offsets.

    Returns:
        How many rows were new.

    Raises:
        RecordError: a record cannot be processed, and the job's policy is to fail; nothing of the batch was written.
        FencedError: a newer owner exists; nothing was written.
    """
    # 2. what the store stands for already changes nothing
    recorded = task.source_offset
    if recorded is not None:
        rows = rows.filter(pc.greater_equal(rows.column("__offset"), recorded))
    if rows.num_rows == 0:
        return 0
    next_offset = int(rows.column("__offset")[-1].as_py()) + 1
    kept, filtered = _without_filtered(task, rows)
    good, failures = screen(task.job.source_topic, task.number, task.job.key_name, kept)
    policy = task.job.error_policy
    if failures and not policy.tolerant:
        raise failures[0].error
    # 3. read and compute
    changes, digest = Changes([], []), 0
    if good.num_rows:
        try:
            grouped = task.job.operation.group(task.job.key_name, good)
            old = task.replica.store.get_many(grouped.keys)
            changes = grouped.apply(old, policy.tolerant)
            digest = digest_change(grouped.keys, old, changes.state)
        except ProcessError as error:
            raise _placed(task, error) from error
        failures += [dataclasses.replace(f, error=_placed(task, f.error)) for f in changes.failed]
    # 4. and 5.
    letters = _dead_letters(kept, failures) if policy.topic is not None else ()
    task.write(changes, next_offset, rows.num_rows, filtered, group, len(failures), letters, digest)
    return int(rows.num_rows)


def _placed(task: Task, error: RecordError) -> RecordError:
    return ProcessError(task.job.source_topic, task.number, error.offset, error.key, error.reason)


def _dead_letters(rows: pa.Table, failures: Sequence[Failure]) -> list[DeadLetter]:
    by_offset = {failure.offset: failure for failure in failures}
    bad = rows.filter(pc.is_in(rows.column("__offset"), value_set=pa.array(list(by_offset), pa.int64())))
    letters = []
    for row in bad.select(["__offset", "__source_key", "__value", "__timestamp_ms"]).to_pylist():
        failure = by_offset[row["__offset"]]
        error = failure.error
        letters.append(
            DeadLetter(
                row["__source_key"],
                row["__value"],
                error.topic,
                error.partition,
                row["__offset"],
                row["__timestamp_ms"],
                type(error).__name__,
                error.reason,
                failure.stack,
            )
        )
    return letters


def _without_filtered(task: Task, rows: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    column = rows.column("__filtered")
    if column.null_count == rows.num_rows:
        return rows, {}
    counts = pc.value_counts(column.combine_chunks().drop_null()).to_pylist()
    names = task.job.filters
    return rows.filter(pc.is_null(column)), {names[c["values"]]: c["counts"] for c in counts}
