"""The active step: what a worker does with one task's rows of a micro-batch.

The order is the guarantee; the numbers are those of the protocol in ``docs/protocol.md``:

1. fence earlier owners and restore the store (`Task`): done before a row gets here, and the last commit is known
2. drop rows below the position that the store recorded
3. read the old values of the batch's distinct keys at once, compute
4. one Kafka transaction (`TransactionalWriter.commit`)
5. one RocksDB write batch (`TaskCommitter.commit`, which takes step 4, too, called by `Task.write`)
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.errors import ProcessError, RecordTooLargeError
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.operations.batch import (
    Changes,
    FunctionError,
    StoreReader,
    timer_counts,
    without_records,
)
from airflow_provider.streaming.operations.limits import TooLargeError
from airflow_provider.streaming.operations.operation import Batch
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, Lateness, StreamTime, lateness
from airflow_provider.streaming.operations.upstream_time import UpstreamTime, without_marks
from airflow_provider.streaming.terms.event_time import EVENT_MS
from airflow_provider.streaming.worker.step.row_validation import (
    Failure,
    count_records,
    filtered_records,
    validate_rows,
    without_strays,
)
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.streaming.worker.tasks.task_committer import BatchResult


def active_step(task: Task, rows: pa.Table, clock_ms: int | None = None) -> BatchResult | None:
    """Process one task's rows of a micro-batch, exactly once however often they come: steps 1 to 3.

    Returns:
        What `Task.write` is to write, steps 4 and 5; None where the store stands for all of it already.

    Args:
        task: RUNNING.
        rows: in the order of the offsets, those of a record together, with the columns ``__offset``, ``__source_key``,
            ``__filtered`` (index of the filter that drops the row, or null), ``__corrupt`` (why the value does not
            decode, or null), ``__key`` and those of the operation; with event time ``__event_ms``, with a dead-letter
            topic ``__value`` and ``__timestamp_ms`` too.
        clock_ms: the time of the micro-batch, epoch ms; None where it has none.

    Raises:
        RecordError: a record cannot be processed, and the job's policy is to fail, or its dead letter is too large for
            the topic; nothing of the batch was written.
        ConfigurationError: a result that comes out as time goes on is larger than the sink takes; nothing was written.
        FencedError: a newer owner exists; nothing was written.
    """
    # 1. the store is restored: it goes on from its last commit
    last = task.commit_record
    recorded = None if last is None else last.source_offset(task.job.input.topic)
    # 2. what the store stands for already changes nothing
    if recorded is not None:
        rows = rows.filter(pc.greater_equal(rows.column("__offset"), recorded))
    if rows.num_rows == 0:
        return None
    end, before, upstream = int(rows.column("__offset")[-1].as_py()) + 1, StreamTime.after(last), None
    if task.job.input.from_stage:
        rows, upstream = without_marks(rows, task.job.input.upstream, before)
    filtered, column = filtered_records(rows, task.job.input.filters), rows.column("__filtered")
    kept = rows if column.null_count == rows.num_rows else rows.filter(pc.is_null(column))
    # 3. read and compute
    done, failures = processed(task, kept, before, upstream, clock_ms)
    closed = _closed(task, done.batch, done.changes, done.state)
    return _result(
        task,
        last,
        done.batch,
        closed,
        done.state,
        source_offset=end,
        records=count_records(rows),
        filtered=dict(Counter(filtered) + Counter(done.changes.dropped)),
        failed=len({failure.offset for failure in failures}),
        lateness=done.lateness,
        dead_letters=_dead_letters(task, kept, failures),
    )


def idle_step(task: Task, stream_time_ms: int, group: ConsumerGroup) -> None:
    """Move a task's time as a record of that time would, in a transaction of its own, if something comes of it.

    That is, if something ends by it, or those behind the task's topics are to know. The commit record says how far time
    has got, as after records. So whoever comes next goes on from there, and nothing is closed that is not committed as
    closed. Where nothing comes of it nothing is written, and the time stays as it was.

    Args:
        task: RUNNING.
        stream_time_ms: where the stream time is to be; one that it has passed moves nothing.

    Raises:
        StatefulStreamsError: as `Task.write`.
    """
    given, last = task.job.input, task.commit_record
    before = StreamTime.after(last)
    if before.stream_time_ms is None or given.event_time is None or given.columns is None:
        return
    if not (task.operation.uses_time or task.job.marked) or stream_time_ms <= before.stream_time_ms:
        return
    after = StreamTime(stream_time_ms, max(stream_time_ms - given.event_time.delay_ms, before.mark_ms))
    nothing = pa.Table.from_batches([], schema=given.columns)
    batch = Batch(key_name=given.key_name, rows=nothing, before=before, after=after)
    state = StoreReader(task.replica)
    closed = _closed(task, batch, Changes([], []), state)
    result = _result(task, last, batch, closed, state, source_offset=task.source_offset or 0, records=0)
    expired = result.expired_before_ms
    expires = expired is not None and next(state.range(b"", time_prefix(expired)), None) is not None
    if closed.output or closed.state or expires or (task.job.marked and _is_news(task, after)):
        task.write(result, group)


def clock_step(task: Task, clock_ms: int, group: ConsumerGroup) -> None:
    """Let what is due by the clock come out, in a transaction of its own; without any where nothing is.

    Args:
        task: RUNNING.
        clock_ms: the time that the driver has said with the call, epoch ms.

    Raises:
        StatefulStreamsError: as `Task.write`.
    """
    last = task.commit_record
    time, state = StreamTime.after(last), StoreReader(task.replica)
    batch = Batch(key_name=task.job.input.key_name, rows=_NO_ROWS, before=time, after=time, clock_ms=clock_ms)
    closed = _closed(task, batch, _NOTHING, state)
    if closed is not _NOTHING:
        task.write(_result(task, last, batch, closed, state, source_offset=task.source_offset, records=0), group)


def _is_news(task: Task, after: StreamTime) -> bool:
    """Whether those behind a task's topics are to know how far time went on: not of each second."""
    told, now, event_time = task.committer.told, task.job.told(after), task.job.input.event_time
    if not isinstance(told, int) or not isinstance(now, int):
        return now != told
    idle_ms = 0 if event_time is None else event_time.idle_ms or 0
    return now - told >= max(_NEWS_MS, idle_ms // _NEWS_PART)


def tell_step(task: Task, aside: bool, group: ConsumerGroup) -> None:
    """Tell those behind an idle task's topics how far it is, in a transaction of its own, if they do not know.

    An owner tells it once, whatever those before it told: who reads the topic may have been reset.

    Args:
        task: RUNNING.
        aside: whether nobody is to wait for its rows from now on.

    Raises:
        StatefulStreamsError: as `Task.write`.
    """
    last = task.commit_record
    before = StreamTime.after(last)
    time = dataclasses.replace(before, aside=before.aside or aside)
    if task.job.told(time) in (None, task.committer.told):
        return
    batch = Batch(key_name=task.job.input.key_name, rows=_NO_ROWS, before=time, after=time)
    state, offset = StoreReader(task.replica), task.source_offset
    task.write(_result(task, last, batch, _NOTHING, state, source_offset=offset, records=0), group)


def _closed(task: Task, batch: Batch, changes: Changes, state: StoreReader) -> Changes:
    """What is written of a batch's changes, once what ended in it is closed."""
    closed = task.operation.close(batch, changes, state)
    if closed is not changes:
        task.job.limits.check_results(closed)
    return closed


def _result(
    task: Task, last: CommitRecord | None, batch: Batch, closed: Changes, state: StoreReader, **counted: Any
) -> BatchResult:
    prefixes = task.operation.timer_prefixes
    return BatchResult(
        changes=closed,
        late=batch.late,
        digest_change=state.digest_change(closed.state, task.operation.segments),
        time=batch.after,
        expired_before_ms=_expired_before_ms(task, last, batch.after),
        timers=timer_counts(prefixes, last.timers if last else {}, closed.state, state) if prefixes else {},
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


_NEWS_MS: Final = 1_000
_NEWS_PART: Final = 10
"""An idle task tells its time after a tenth of its timeout, and after a second at the least."""
_NOTHING: Final = Changes([], [])
_NO_ROWS: Final = pa.table({})


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What rows come to beside each other.

    Args:
        batch: the rows in time.
        state: what was read for them.
        sure: the records that fail whatever lies beside them.
        unsure: those that fail beside the others.
        lateness: of the rows, the late ones among them; None where they have no event time, and of none.
    """

    batch: Batch
    state: StoreReader
    changes: Changes = _NOTHING
    sure: list[Failure]
    unsure: list[Failure] = field(default_factory=list)
    lateness: Lateness | None = None


def processed(
    task: Task,
    rows: pa.Table,
    before: StreamTime,
    upstream: UpstreamTime | None = None,
    clock_ms: int | None = None,
) -> tuple[Attempt, list[Failure]]:
    """What rows come to, and the records that cannot be processed.

    A record is processed with all of its rows or with none: what is left out can be given to the job again. So it does
    not move time either, and those behind it are judged again without it.

    Args:
        task: RUNNING.
        rows: none of which was dropped by a filter.
        upstream: what the tasks have told that write them; None where the rows themselves move time.
        clock_ms: as of `active_step`.

    Raises:
        RecordError: there is one, and the job's policy is to fail.
    """
    failures = list[Failure]()
    while True:
        done = _attempt(task, rows, before, upstream, clock_ms)
        failures += done.sure
        if not done.sure and not done.unsure:
            break
        if task.job.input.event_time is None and count_records(rows) == rows.num_rows:
            # Each of them is left out by itself already.
            failures += done.unsure
            break
        # Their event times may be none at all.
        out = {failure.offset for failure in done.sure}
        rows = without_records(rows, out)
        unsure = [failure for failure in done.unsure if failure.offset not in out]
        more = certain_failures(rows, unsure, before, sided=task.operation.sided)
        if not out and not more:
            break
        failures += more
        rows = without_records(rows, {failure.offset for failure in more})
    return done, sorted(failures, key=lambda failure: failure.offset)


def _attempt(
    task: Task, rows: pa.Table, before: StreamTime, upstream: UpstreamTime | None, clock_ms: int | None
) -> Attempt:
    job, operation, tolerant = task.job, task.operation, task.job.error_policy.tolerant
    rows, sure = validate_rows(
        job.input.topic,
        task.id.partition,
        job.input.key_name,
        rows,
        keyed_by_group=task.partition_check is not None,
        table=job.input.table,
        null_keys=job.input.null_keys == "keep",
        from_stage=job.input.from_stage,
    )
    if sure and not tolerant:
        raise sure[0].error
    error: FunctionError | None = None
    while True:
        state, changes = StoreReader(task.replica), _NOTHING
        batch = Batch(
            key_name=job.input.key_name, rows=rows, before=before, after=before, upstream=upstream, clock_ms=clock_ms
        )
        if job.input.event_time is not None and (rows.num_rows or upstream is not None):
            batch = operation.place(batch, job.input.event_time.delay_ms)
        if batch.rows.num_rows == 0:
            break
        try:
            changes = operation.merge(batch, state, tolerant)
            changes = operation.fitted(batch, changes, state, job.limits, tolerant)
        except FunctionError as raised:
            error = raised
        # What is wrong with a row's place comes before what the function makes of it. A group that has state was found
        # right when it got it.
        check = task.partition_check
        strays = [] if check is None else check.strays(list(dict.fromkeys(operation.groups(state.new))))
        if check is None or not strays:
            break
        error = None
        rows, misplaced = without_strays(job.input.topic, task.id.partition, rows, strays, check.partitioner)
        if not tolerant:
            raise misplaced[0].error
        sure += misplaced
    if error is not None:
        raise _named(task, error, rows) from error
    unsure = list[Failure]()
    for failed in changes.failed:
        failure = Failure.of(failed.offset, _named(task, failed, rows), failed.__cause__ or failed)
        (sure if failed.alone else unsure).append(failure)
    timed = job.input.event_time is not None and rows.num_rows > 0
    behind = lateness(rows.column(EVENT_MS).to_numpy(), before) if timed else None
    return Attempt(batch=batch, state=state, changes=changes, sure=sure, unsure=unsure, lateness=behind)


def _named(task: Task, error: FunctionError, rows: pa.Table) -> ProcessError | RecordTooLargeError:
    kind = RecordTooLargeError if isinstance(error, TooLargeError) else ProcessError
    # An operation of time knows the row under a key of its own.
    at = pc.index(rows.column("__offset"), pa.scalar(error.offset, pa.int64())).as_py()
    key = error.key if at < 0 else rows.column("__key")[at].as_py().decode("utf-8", "replace")
    return kind(task.job.input.topic, task.id.partition, error.offset, key, error.reason)


def certain_failures(
    rows: pa.Table, failures: Sequence[Failure], before: StreamTime, *, sided: bool = False
) -> list[Failure]:
    """Those of which nothing changes when the others are left out; the first always is one.

    A record that fails is left out as a whole. What else it did in the batch is undone: its other rows were in groups
    in which later records were judged, and it may have moved the time by which later records were. So of those nothing
    is known yet.

    Args:
        rows: of the batch, in the order of their offsets, with ``__offset``, ``__key`` and perhaps ``__event_ms``.
        sided: whether the rows are of two sides, each with a time of its own.
    """
    by_offset = {failure.offset: failure for failure in reversed(failures)}
    offsets, keys = rows.column("__offset").to_numpy(), rows.column("__key")
    # By row, the greatest time before it; one more, behind all.
    begin_ms = NO_WATERMARK if before.stream_time_ms is None else before.stream_time_ms
    timed = EVENT_MS in rows.schema.names
    times = rows.column(EVENT_MS).to_numpy() if timed else np.zeros(0, np.int64)
    greatest = np.maximum.accumulate(np.concatenate(([begin_ms], times)))
    certain, unsure = list[Failure](), set[bytes | None]()
    for offset in sorted(by_offset):
        begin, end = np.searchsorted(offsets, [offset, offset + 1]).tolist()
        groups = set(keys.slice(begin, end - begin).to_pylist())
        known = not unsure & groups
        if known:
            certain.append(by_offset[offset])
        if end - begin > 1 or not known:
            unsure |= groups
        if timed and (sided or greatest[end] > greatest[begin]):
            break
    return certain
