"""What the heartbeat says of a task's event time."""

from __future__ import annotations

from airflow_provider.control.status import TimeStatus
from airflow_provider.streaming.operations.join_interval import IntervalJoin
from airflow_provider.streaming.operations.join_rows import LEFT, RIGHT
from airflow_provider.streaming.operations.join_stream_table import StreamTableJoin
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.planner.stage_spec import StageSpec

__all__ = ["time_status"]


def time_status(job: StageSpec, time: StreamTime) -> TimeStatus:
    """How far the watermark of a task has got, and what it waits for.

    Two joined streams go on at the pace of the later one; rows of a stream that wait for a table's, at their own.

    Args:
        job: the stage.
        time: of the task, as of its last commit.
    """
    operation, marks = job.operation, time.side_watermarks_ms
    if not marks or not job.input.sides:
        return TimeStatus(watermark_ms=time.watermark_ms)
    left, right = marks
    if isinstance(operation, StreamTableJoin):
        if operation.grace_ms is None:
            return TimeStatus(watermark_ms=time.watermark_ms)
        # Up to where the stream would have to get, for all to be let out that the table has rows for.
        right = None if right is None else right - operation.grace_ms
        behind = None if right is None or (left is not None and left >= right) else LEFT
    elif not isinstance(operation, IntervalJoin) or left == right:
        behind = None
    else:
        behind = LEFT if left is None or (right is not None and left < right) else RIGHT
    if behind is None:
        return TimeStatus(watermark_ms=time.watermark_ms)
    ms = None if left is None or right is None else abs(left - right)
    return TimeStatus(watermark_ms=time.watermark_ms, held_back_by=job.input.sides[behind], held_back_ms=ms)
