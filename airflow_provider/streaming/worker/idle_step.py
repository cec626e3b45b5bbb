"""The active step without records: time is moved, and what ends by that is closed."""

from __future__ import annotations

import pyarrow as pa

from airflow_provider.changelog.consumer_group import ConsumerGroup
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.operations.timed_rows import TimedOperation, TimedRows
from airflow_provider.streaming.worker.batch_result import BatchResult
from airflow_provider.streaming.worker.task import Task
from airflow_provider.streaming.worker.task_time import close_windows, expired_before_ms, time_of_commit

__all__ = ["idle_step"]


def idle_step(task: Task, stream_time_ms: int, group: ConsumerGroup) -> None:
    """Move a task's time as a record of that time would, in a transaction of its own, if something ends by it.

    The commit record says how far time has got, as after records. So whoever comes next goes on from there, and nothing
    is closed that is not committed as closed. Where nothing ends nothing is written, and the time stays as it was.

    Args:
        task: RUNNING.
        stream_time_ms: where the stream time is to be; one that it has passed moves nothing.
        group: gets the offsets, which stay as they are.

    Raises:
        ConfigurationError: as `close_windows`.
        FencedError: a newer owner exists; nothing was written.
        StatefulStreamsError: as `Task.write`.
    """
    job, operation, last = task.job, task.operation, task.commit_record
    before = time_of_commit(last)
    event_time, columns = job.input.event_time, job.input.columns
    if last is None or before.stream_time_ms is None or event_time is None or columns is None:
        return
    if not isinstance(operation, TimedOperation) or stream_time_ms <= before.stream_time_ms:
        return
    mark = stream_time_ms - event_time.delay_ms
    after = StreamTime(stream_time_ms, mark if before.watermark_ms is None else max(mark, before.watermark_ms))
    placed = TimedRows(rows=pa.Table.from_batches([], schema=columns), late=0, before=before, after=after)
    changes = close_windows(job, operation, Changes([], []), placed, task.range)
    expired = expired_before_ms(operation, after, last, job.store.name)
    expires = expired is not None and next(task.range(b"", time_prefix(expired)), None) is not None
    if not changes.output and not expires:
        return
    task.write(
        BatchResult(
            changes=changes,
            source_offset=last.source_offset(job.input.topic) or 0,
            records=0,
            time=after,
            expired_before_ms=expired,
        ),
        group,
    )
