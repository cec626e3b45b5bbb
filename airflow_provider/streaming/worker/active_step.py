"""The active step: what a worker does with one task's rows of a micro-batch.

The order is the guarantee; the numbers are those of the protocol in ``docs/protocol.md``:

1. fence earlier owners and restore the store (`Task`): done before a row gets here
2. drop rows below the position that the store recorded
3. read the old values of the batch's distinct keys at once, compute
4. one Kafka transaction (`TransactionalWriter.commit`)
5. one RocksDB write batch (`Task.write`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.changelog.consumer_group import ConsumerGroup
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.errors import ProcessError, RecordTooLargeError
from airflow_provider.streaming.operations.function_error import FunctionError
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.timed_rows import FurtherReader, RangeReader, TimedRows
from airflow_provider.streaming.worker.batch_result import BatchResult
from airflow_provider.streaming.worker.certain_failures import certain_failures
from airflow_provider.streaming.worker.computation import TooLargeError, compute
from airflow_provider.streaming.worker.failure import Failure
from airflow_provider.streaming.worker.record_rows import count_records, filtered_records, without_records
from airflow_provider.streaming.worker.row_validation import validate_rows, without_strays
from airflow_provider.streaming.worker.task import Task
from airflow_provider.streaming.worker.task_time import (
    close_windows,
    digest_changes,
    expired_before_ms,
    groups_of,
    place_rows,
    time_of_commit,
)

__all__ = ["active_step"]


def active_step(task: Task, rows: pa.Table, group: ConsumerGroup) -> None:
    """Process one task's rows of a micro-batch, exactly once however often they come.

    Args:
        task: RUNNING.
        rows: in the order of the offsets, those of a record together, with the columns ``__offset``, ``__source_key``,
            ``__filtered`` (index of the filter that drops the row, or null), ``__corrupt`` (why the value does not
            decode, or null), ``__key`` and those of the operation; with event time ``__event_ms``, with a dead-letter
            topic ``__value`` and ``__timestamp_ms`` too.
        group: gets the offsets.

    Raises:
        RecordError: a record cannot be processed, and the job's policy is to fail, or its dead letter is too large for
            the topic; nothing of the batch was written.
        ConfigurationError: as `close_windows`.
        FencedError: a newer owner exists; nothing was written.
    """
    job, last = task.job, task.commit_record
    # 2. what the store stands for already changes nothing
    recorded = task.source_offset
    if recorded is not None:
        rows = rows.filter(pc.greater_equal(rows.column("__offset"), recorded))
    if rows.num_rows == 0:
        return
    next_offset = int(rows.column("__offset")[-1].as_py()) + 1
    filtered = filtered_records(rows, job.input.filters)
    kept = rows if rows.column("__filtered").null_count == rows.num_rows else _left(rows)
    # 3. read and compute
    done, failures = _computed(task, kept)
    changes = close_windows(job, task.operation, done.changes, done.placed, task.range)
    # 4. and 5.
    task.write(
        BatchResult(
            changes=changes,
            source_offset=next_offset,
            records=count_records(rows),
            filtered=dict(Counter(filtered) + Counter(changes.dropped)),
            failed=len({failure.offset for failure in failures}),
            dead_letters=_dead_letters(task, kept, failures),
            late=done.placed.late,
            digest_change=digest_changes(task.operation, done.keys, done.old, changes),
            time=done.placed.after,
            expired_before_ms=expired_before_ms(task.operation, done.placed.after, last, job.store.name),
        ),
        group,
    )


def _left(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.is_null(rows.column("__filtered")))


@dataclass(frozen=True, kw_only=True)
class _Computed:
    """What rows come to.

    Args:
        placed: the rows in time.
        keys: those whose state was read.
        old: their state before.
        changes: that the rows make.
    """

    placed: TimedRows
    keys: Sequence[bytes] = ()
    old: Sequence[bytes | None] = ()
    changes: Changes = field(default_factory=lambda: Changes([], []))


def _computed(task: Task, rows: pa.Table) -> tuple[_Computed, list[Failure]]:
    """What rows come to, and the records that cannot be processed.

    A record is processed with all of its rows or with none: what is left out can be given to the job again. So it does
    not move time either, and those behind it are judged again without it.

    Raises:
        RecordError: there is one, and the job's policy is to fail.
    """
    event_time, before = task.job.input.event_time, time_of_commit(task.commit_record)
    failures = list[Failure]()
    while True:
        found = _attempt(task, rows)
        failures += found.sure
        if not found.sure and not found.unsure:
            break
        if event_time is None and count_records(rows) == rows.num_rows:
            # Each of them is left out by itself already.
            failures += found.unsure
            break
        # Their event times may be none at all.
        out = {failure.offset for failure in found.sure}
        rows = without_records(rows, out)
        more = certain_failures(rows, [failure for failure in found.unsure if failure.offset not in out], before)
        if not out and not more:
            break
        failures += more
        rows = without_records(rows, {failure.offset for failure in more})
    return found.done, sorted(failures, key=lambda failure: failure.offset)


@dataclass(frozen=True)
class _Attempt:
    """What rows come to beside each other.

    Args:
        done: it.
        sure: the records that fail whatever lies beside them.
        unsure: those that fail beside the others.
    """

    done: _Computed
    sure: list[Failure]
    unsure: list[Failure] = field(default_factory=list)


def _attempt(task: Task, rows: pa.Table) -> _Attempt:
    job, check = task.job, task.partition_check
    tolerant = job.error_policy.tolerant
    good, sure = validate_rows(
        job.input.topic,
        task.partition,
        job.input.key_name,
        rows,
        keyed_by_group=check is not None,
        table=job.input.table,
        null_keys=job.input.null_keys == "keep",
    )
    if sure and not tolerant:
        raise sure[0].error
    while True:
        placed = place_rows(task.operation, job.input.event_time, good, time_of_commit(task.commit_record))
        if placed.rows.num_rows == 0:
            return _Attempt(_Computed(placed=placed), sure)
        grouped = task.operation.group(job.input.key_name, placed.rows)
        keys, old = grouped.keys, task.get_many(grouped.keys)
        # A group that has state was found right when it got it.
        strays = [] if check is None else check.strays(groups_of(task.operation, _new(keys, old)))
        if check is None or not strays:
            break
        good, misplaced = without_strays(job.input.topic, task.partition, good, strays, check.partitioner)
        if not tolerant:
            raise misplaced[0].error
        sure += misplaced
    if isinstance(grouped, RangeReader):
        grouped.read(task.range)
    if isinstance(grouped, FurtherReader):
        while further := grouped.further_keys(old):
            old = [*old, *task.get_many(further)]
        keys = grouped.keys
    try:
        changes = compute(job, task.operation, placed.rows, grouped, old)
    except FunctionError as error:
        raise _placed(task, error, good) from error
    unsure = list[Failure]()
    for failed in changes.failed:
        failure = Failure.of(failed.offset, _placed(task, failed, good), failed.__cause__ or failed)
        (sure if failed.alone else unsure).append(failure)
    return _Attempt(_Computed(placed=placed, keys=keys, old=old, changes=changes), sure, unsure)


def _new(keys: Sequence[bytes], old: Sequence[bytes | None]) -> list[bytes]:
    return [key for key, value in zip(keys, old, strict=True) if value is None]


def _placed(task: Task, error: FunctionError, rows: pa.Table) -> ProcessError | RecordTooLargeError:
    kind = RecordTooLargeError if isinstance(error, TooLargeError) else ProcessError
    # An operation of time knows the row under a key of its own.
    at = pc.index(rows.column("__offset"), pa.scalar(error.offset, pa.int64())).as_py()
    key = error.key if at < 0 else rows.column("__key")[at].as_py().decode("utf-8", "replace")
    return kind(task.job.input.topic, task.partition, error.offset, key, error.reason)


def _dead_letters(task: Task, rows: pa.Table, failures: Sequence[Failure]) -> Sequence[DeadLetter]:
    topic = task.job.error_policy.topic
    if topic is None:
        return ()
    max_bytes = task.job.record_limit(topic)
    by_offset = {failure.offset: failure for failure in reversed(failures)}
    bad = rows.filter(pc.is_in(rows.column("__offset"), value_set=pa.array(list(by_offset), pa.int64())))
    letters = []
    for row in bad.select(["__offset", "__source_key", "__value", "__timestamp_ms"]).to_pylist():
        failure = by_offset.pop(row["__offset"], None)
        if failure is None:
            continue  # another row of the same record
        error = failure.error
        letter = DeadLetter(
            key=row["__source_key"],
            value=row["__value"],
            topic=error.topic,
            partition=error.partition,
            offset=row["__offset"],
            timestamp_ms=row["__timestamp_ms"],
            task=task.id,
            error=type(error).__name__,
            message=error.reason,
            stack=failure.stack,
        ).fitted(max_bytes)
        if letter.size > max_bytes:
            # Left out and kept nowhere it would be lost.
            why = (
                f"{error.reason}. Its dead letter is {letter.size:,} bytes, and the dead-letter topic takes "
                f"{max_bytes:,} at the most: raise its max.message.bytes and deploy again"
            )
            raise RecordTooLargeError(error.topic, error.partition, row["__offset"], error.key, why)
        letters.append(letter)
    return letters
