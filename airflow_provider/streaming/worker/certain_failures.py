"""Which of a batch's failed records fail wherever batches begin and end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from airflow_provider.streaming.event_time import EVENT_MS
from airflow_provider.streaming.operations.join_rows import FLAGS
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, StreamTime
from airflow_provider.streaming.worker.failure import Failure

__all__ = ["certain_failures"]


def certain_failures(rows: pa.Table, failures: Sequence[Failure], before: StreamTime) -> list[Failure]:
    """Those of which nothing changes when the others are left out; the first always is one.

    A record that fails is left out as a whole. What else it did in the batch is undone: its other rows were in groups
    in which later records were judged, and it may have moved the time by which later records were. So of those nothing
    is known yet.

    Args:
        rows: of the batch, in the order of their offsets, with ``__offset``, ``__key`` and perhaps ``__event_ms``.
        failures: of some of their records.
        before: the time of the task before the batch.
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
        # Of two sides each has a time of its own.
        if timed and (greatest[end] > greatest[begin] or FLAGS in rows.schema.names):
            break
    return certain
