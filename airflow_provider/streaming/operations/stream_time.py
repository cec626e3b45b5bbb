"""How far event time has got in a task, and what that says of each of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["StreamTime", "watermarks"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StreamTime:
    """The time of a task, which never goes back.

    Args:
        stream_time_ms: the greatest event time seen, epoch ms; None before any.
        watermark_ms: what ends at or before it has ended; None before any.
    """

    stream_time_ms: int | None = None
    watermark_ms: int | None = None


def watermarks(event_ms: Ints, delay_ms: int, before: StreamTime) -> tuple[Ints, StreamTime]:
    """The watermark at each row: by the event times of the rows up to it, in the order of their offsets.

    So it does not matter where micro-batches end. With a longer delay than before it stands still until the stream time
    has caught up.

    Args:
        event_ms: of the rows, epoch ms, in the order of the offsets; at least one.
        delay_ms: by how much the watermark lies behind the stream time.
        before: the time of the task before these rows.

    Returns:
        By row, and the time of the task after them.
    """
    seen = np.maximum.accumulate(event_ms)
    if before.stream_time_ms is not None:
        seen = np.maximum(seen, before.stream_time_ms)
    marks = seen - delay_ms
    if before.watermark_ms is not None:
        marks = np.maximum(marks, before.watermark_ms)
    return marks, StreamTime(int(seen[-1]), int(marks[-1]))
