"""How the rows of a task stand in time, before and after the operation; nothing where the job reads no event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.state.digest import digest_change, digests_by_segment
from airflow_provider.state.time_segments import TimeSegments
from airflow_provider.streaming.event_time import EVENT_MS, EventTime
from airflow_provider.streaming.operations.operation import Changes, Operation
from airflow_provider.streaming.operations.stream_time import StreamTime, watermarks
from airflow_provider.streaming.operations.timed_rows import PlacingOperation, StoreRange, TimedOperation, TimedRows
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.computation import check_results

__all__ = [
    "close_windows",
    "digest_changes",
    "expired_before_ms",
    "groups_of",
    "place_rows",
    "segments_of",
    "time_of_commit",
]


def time_of_commit(record: CommitRecord | None) -> StreamTime:
    """The time of a task after its last commit; None before the first."""
    if record is None:
        return StreamTime()
    return StreamTime(record.stream_time_ms, record.watermark_ms, record.side_watermarks_ms)


def place_rows(operation: Operation, event_time: EventTime | None, rows: pa.Table, before: StreamTime) -> TimedRows:
    """The rows that are not late, under the keys that the operation keeps state by.

    Args:
        operation: of the job.
        event_time: of the job; None where it reads none.
        rows: that can be processed, in the order of their offsets.
        before: the time of the task before them.
    """
    if event_time is None or rows.num_rows == 0:
        return TimedRows(rows=rows, late=0, before=before, after=before)
    if isinstance(operation, PlacingOperation):
        return operation.place(rows, before)
    _, after = watermarks(rows.column(EVENT_MS).to_numpy(), event_time.delay_ms, before)
    return TimedRows(rows=rows, late=0, before=before, after=after)


def groups_of(operation: Operation, keys: Sequence[bytes]) -> list[bytes]:
    """The groups that some keys of a store belong to, each once."""
    groups = operation.groups(keys) if isinstance(operation, TimedOperation) else keys
    return list(dict.fromkeys(groups))


def segments_of(operation: Operation) -> TimeSegments | None:
    """How the keys of an operation's store are cut; None where they begin with no time."""
    return operation.segments if isinstance(operation, TimedOperation) else None


def close_windows(
    job: StageSpec, operation: Operation, changes: Changes, placed: TimedRows, kept: StoreRange
) -> Changes:
    """What is written of a batch's changes, once what ended in it is closed; see `TimedOperation.close`.

    Raises:
        ConfigurationError: a result that comes out by that is larger than the sink takes; nothing was written.
    """
    if not isinstance(operation, TimedOperation):
        return changes
    closed = operation.close(changes, placed, kept, job.input.key_name)
    check_results(job, closed.output)
    return closed


def expired_before_ms(operation: Operation, time: StreamTime, last: CommitRecord | None, store: str) -> int | None:
    """Before which time a store holds nothing any more; None where nothing expires.

    Args:
        operation: of the job.
        time: of the task after the batch.
        last: the task's last commit: what is gone stays gone, and what is dropped together is dropped when all of it is
            over.
        store: its name.
    """
    before = None if last is None else last.expired_before_ms.get(store)
    if not isinstance(operation, TimedOperation) or time.watermark_ms is None:
        return before
    now = operation.expired_before_ms(time.watermark_ms)
    if last is not None:
        now = last.time_spans(store, operation.segments).whole_before(now)
    return now if before is None else max(before, now)


def digest_changes(
    operation: Operation, keys: Sequence[bytes], old: Sequence[bytes | None], changes: Changes
) -> Mapping[int, int]:
    """What changes add to the digest of each of the store's segments.

    Args:
        operation: of the job.
        keys: distinct, at least those that change.
        old: their values before, in the same order.
        changes: in any order.
    """
    if not changes.state:
        return {}
    if not isinstance(operation, (TimedOperation, PlacingOperation)):
        return {0: digest_change(keys, old, changes.state)}
    before, state = dict(zip(keys, old, strict=True)), changes.state

    def digest(begin: int, end: int) -> int:
        part = state[begin:end]
        # A key that was not looked up cannot be there.
        return digest_change([key for key, _ in part], [before.get(key) for key, _ in part], part)

    if not isinstance(operation, TimedOperation):
        return {0: digest(0, len(state))}
    return digests_by_segment(operation.segments, [key for key, _ in state], digest)
