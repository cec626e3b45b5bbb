"""What a task's rows come to, and which of their records cannot be processed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.errors import ProcessError, RecordTooLargeError
from airflow_provider.streaming.operations.changes import Changes, FunctionError
from airflow_provider.streaming.operations.limits import TooLargeError
from airflow_provider.streaming.operations.operation import Batch
from airflow_provider.streaming.operations.state_reader import StoreReader
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, StreamTime
from airflow_provider.streaming.terms.event_time import EVENT_MS
from airflow_provider.streaming.worker.step.row_validation import (
    Failure,
    count_records,
    validate_rows,
    without_records,
    without_strays,
)
from airflow_provider.streaming.worker.tasks.task import Task

__all__ = ["Attempt", "certain_failures", "processed"]

_NOTHING: Final = Changes([], [])


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What rows come to beside each other.

    Args:
        batch: the rows in time.
        state: what was read for them.
        changes: that they make.
        sure: the records that fail whatever lies beside them.
        unsure: those that fail beside the others.
    """

    batch: Batch
    state: StoreReader
    changes: Changes = _NOTHING
    sure: list[Failure]
    unsure: list[Failure] = field(default_factory=list)


def processed(task: Task, rows: pa.Table, before: StreamTime) -> tuple[Attempt, list[Failure]]:
    """What rows come to, and the records that cannot be processed.

    A record is processed with all of its rows or with none: what is left out can be given to the job again. So it does
    not move time either, and those behind it are judged again without it.

    Args:
        task: RUNNING.
        rows: none of which was dropped by a filter.
        before: the time of the task before them.

    Raises:
        RecordError: there is one, and the job's policy is to fail.
    """
    failures = list[Failure]()
    while True:
        done = _attempt(task, rows, before)
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


def _attempt(task: Task, rows: pa.Table, before: StreamTime) -> Attempt:
    job, operation, tolerant = task.job, task.operation, task.job.error_policy.tolerant
    rows, sure = validate_rows(
        job.input.topic,
        task.id.partition,
        job.input.key_name,
        rows,
        keyed_by_group=task.partition_check is not None,
        table=job.input.table,
        null_keys=job.input.null_keys == "keep",
    )
    if sure and not tolerant:
        raise sure[0].error
    error: FunctionError | None = None
    while True:
        state, changes = StoreReader(task.replica), _NOTHING
        batch = Batch(key_name=job.input.key_name, rows=rows, before=before, after=before)
        if job.input.event_time is not None and rows.num_rows:
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
    return Attempt(batch=batch, state=state, changes=changes, sure=sure, unsure=unsure)


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
        failures: of some of their records.
        before: the time of the task before the batch.
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
