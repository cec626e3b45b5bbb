"""How far event time has got in a task, and what that says of each of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from airflow_provider.changelog.commit_record import CommitRecord

Ints = npt.NDArray[np.int64]

NO_WATERMARK: Final = -(2**62)
"""Before any time that a row can have: nothing has ended."""


@dataclass(frozen=True)
class StreamTime:
    """The time of a task, which never goes back.

    Args:
        stream_time_ms: the greatest event time seen, epoch ms; None before any.
        watermark_ms: what ends at or before it has ended; None before any.
        side_watermarks_ms: of a join of two streams, by side, the watermark of its rows alone; None before any of them.
    """

    stream_time_ms: int | None = None
    watermark_ms: int | None = None
    side_watermarks_ms: tuple[int | None, ...] = ()

    @classmethod
    def after(cls, last: CommitRecord | None) -> StreamTime:
        """That of a task after its last commit; None before the first."""
        return cls() if last is None else cls(last.stream_time_ms, last.watermark_ms, last.side_watermarks_ms)


def watermarks(event_ms: Ints, delay_ms: int, before: StreamTime) -> tuple[Ints, StreamTime]:
    """The watermark at each row: by the event times of the rows up to it, in the order of their offsets.

    So it does not matter where micro-batches end. With a longer delay than before it stands still until the stream time
    has caught up.

    Args:
        event_ms: of the rows, epoch ms, in the order of the offsets; at least one.
        delay_ms: by how much the watermark lies behind the stream time.

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


def joined_watermarks(
    event_ms: Ints, sides: Ints, delays_ms: Sequence[int], before: StreamTime
) -> tuple[Ints, StreamTime]:
    """The watermark at each row of a topic that two streams are in: the earlier of theirs.

    So neither stream drops rows of the other because it is ahead, and a stream without rows holds it back.

    Args:
        delays_ms: by side, by how much its watermark lies behind its greatest time.

    Returns:
        By row, `NO_WATERMARK` before there is one, and the time of the task after them.
    """
    of_sides = side_watermarks(event_ms, sides, delays_ms, before)
    marks = np.minimum.reduce(of_sides)
    if before.watermark_ms is not None:
        marks = np.maximum(marks, before.watermark_ms)
    return marks, joined_time(event_ms, marks, of_sides, before)


def side_watermarks(event_ms: Ints, sides: Ints, delays_ms: Sequence[int], before: StreamTime) -> list[Ints]:
    """By side, its watermark at each row, `NO_WATERMARK` before there is one; see `joined_watermarks`."""
    known = before.side_watermarks_ms or (None,) * len(delays_ms)
    of_sides = list[Ints]()
    for side, delay in enumerate(delays_ms):
        begin = known[side]
        marks = np.where(sides == side, event_ms - delay, NO_WATERMARK)
        of_sides.append(np.maximum(np.maximum.accumulate(marks), NO_WATERMARK if begin is None else begin))
    return of_sides


def joined_time(event_ms: Ints, marks: Ints, of_sides: Sequence[Ints], before: StreamTime) -> StreamTime:
    """The time of a task after some rows of two sides."""
    seen = int(event_ms.max())
    return StreamTime(
        seen if before.stream_time_ms is None else max(seen, before.stream_time_ms),
        _known(int(marks[-1])),
        tuple(_known(int(of_side[-1])) for of_side in of_sides),
    )


def _known(mark: int) -> int | None:
    return None if mark == NO_WATERMARK else mark
