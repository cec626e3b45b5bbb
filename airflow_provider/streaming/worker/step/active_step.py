"""The active step: what a worker does with one task's rows of a micro-batch.

The order is the guarantee; the numbers are those of the protocol in ``docs/protocol.md``:

1. fence earlier owners and restore the store (`Task`): done before a row gets here, and the last commit is known
2. drop rows below the position that the store recorded
3. read the old values of the batch's distinct keys at once, compute
4. one Kafka transaction (`TransactionalWriter.commit`)
5. one RocksDB write batch (`Task.write`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.errors import RecordTooLargeError
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.operations.changes import Changes
from airflow_provider.streaming.operations.operation import Batch
from airflow_provider.streaming.operations.state_reader import StoreReader
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.worker.step.attempt import processed
from airflow_provider.streaming.worker.step.row_validation import Failure, count_records, filtered_records
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.streaming.worker.tasks.task_committer import BatchResult

__all__ = ["active_step", "idle_step"]


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
        ConfigurationError: a result that comes out as time goes on is larger than the sink takes; nothing was written.
        FencedError: a newer owner exists; nothing was written.
    """
    # 1. the store is restored: it goes on from its last commit
    last, recorded = task.commit_record, task.source_offset
    # 2. what the store stands for already changes nothing
    if recorded is not None:
        rows = rows.filter(pc.greater_equal(rows.column("__offset"), recorded))
    if rows.num_rows == 0:
        return
    filtered, column = filtered_records(rows, task.job.input.filters), rows.column("__filtered")
    kept = rows if column.null_count == rows.num_rows else rows.filter(pc.is_null(column))
    # 3. read and compute
    done, failures = processed(task, kept, StreamTime.after(last))
    closed = _closed(task, done.batch, done.changes, done.state)
    result = _result(
        task,
        last,
        done.batch,
        closed,
        done.state,
        source_offset=int(rows.column("__offset")[-1].as_py()) + 1,
        records=count_records(rows),
        filtered=dict(Counter(filtered) + Counter(done.changes.dropped)),
        failed=len({failure.offset for failure in failures}),
        dead_letters=_dead_letters(task, kept, failures),
    )
    # 4. one transaction in Kafka, 5. the same in the store
    task.write(result, group)


def idle_step(task: Task, stream_time_ms: int, group: ConsumerGroup) -> None:
    """Move a task's time as a record of that time would, in a transaction of its own, if something ends by it.

    The commit record says how far time has got, as after records. So whoever comes next goes on from there, and nothing
    is closed that is not committed as closed. Where nothing ends nothing is written, and the time stays as it was.

    Args:
        task: RUNNING.
        stream_time_ms: where the stream time is to be; one that it has passed moves nothing.
        group: gets the offsets, which stay as they are.

    Raises:
        ConfigurationError: as `active_step`.
        FencedError: a newer owner exists; nothing was written.
        StatefulStreamsError: as `Task.write`.
    """
    given, last = task.job.input, task.commit_record
    before = StreamTime.after(last)
    if before.stream_time_ms is None or given.event_time is None or given.columns is None:
        return
    if not task.operation.timed or stream_time_ms <= before.stream_time_ms:
        return
    mark = stream_time_ms - given.event_time.delay_ms
    after = StreamTime(stream_time_ms, mark if before.watermark_ms is None else max(mark, before.watermark_ms))
    nothing = pa.Table.from_batches([], schema=given.columns)
    batch = Batch(key_name=given.key_name, rows=nothing, before=before, after=after)
    state = StoreReader(task.replica)
    closed = _closed(task, batch, Changes([], []), state)
    result = _result(task, last, batch, closed, state, source_offset=task.source_offset or 0, records=0)
    expired = result.expired_before_ms
    expires = expired is not None and next(state.range(b"", time_prefix(expired)), None) is not None
    if closed.output or expires:
        task.write(result, group)


def _closed(task: Task, batch: Batch, changes: Changes, state: StoreReader) -> Changes:
    """What is written of a batch's changes, once what ended in it is closed."""
    closed = task.operation.close(batch, changes, state)
    if closed is not changes:
        task.job.limits.check_results(closed.output)
    return closed


def _result(
    task: Task, last: CommitRecord | None, batch: Batch, closed: Changes, state: StoreReader, **counted: Any
) -> BatchResult:
    return BatchResult(
        changes=closed,
        late=batch.late,
        digest_change=state.digest_change(closed.state, task.operation.segments),
        time=batch.after,
        expired_before_ms=_expired_before_ms(task, last, batch.after),
        **counted,
    )


def _expired_before_ms(task: Task, last: CommitRecord | None, time: StreamTime) -> int | None:
    """Before which time the store holds nothing any more; None where nothing expires.

    What is gone stays gone, and what is dropped together is dropped when all of it is over.
    """
    operation, store = task.operation, task.job.store.name
    before = None if last is None else last.expired_before_ms.get(store)
    now = None if time.watermark_ms is None else operation.expired_before_ms(time.watermark_ms)
    if now is None:
        return before
    if last is not None and operation.segments is not None:
        now = last.time_spans(store, operation.segments).whole_before(now)
    return now if before is None else max(before, now)


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
