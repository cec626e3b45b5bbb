"""How far event time has got in a task, and what that says of each of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from airflow_provider.changelog.commit_record import CommitRecord

Ints = npt.NDArray[np.int64]

NO_WATERMARK: Final = -(2**62)
"""Before any time that a row can have: nothing has ended."""

MARK_MS: Final = "__mark_ms"
"""The column of placed rows with the watermark at each, where their operation reads it."""


@dataclass(frozen=True)
class StreamTime:
    """The time of a task, which never goes back.

    Args:
        stream_time_ms: the greatest event time seen, epoch ms; None before any.
        watermark_ms: what ends at or before it has ended; None before any.
        side_watermarks_ms: of a join of two streams, by side, the watermark of its rows alone; None before any of them.
        marks: behind an internal topic, by task that writes its rows, what it told last of its watermark
            (`operations.upstream_time`).
        aside: whether nobody is to wait for the task's rows, because its source holds nothing.
    """

    stream_time_ms: int | None = None
    watermark_ms: int | None = None
    side_watermarks_ms: tuple[int | None, ...] = ()
    marks: Mapping[str, int | None] = field(default_factory=dict)
    aside: bool = False

    @classmethod
    def after(cls, last: CommitRecord | None) -> StreamTime:
        """That of a task after its last commit; None before the first."""
        if last is None:
            return cls()
        return cls(last.stream_time_ms, last.watermark_ms, last.side_watermarks_ms, last.marks, last.aside)

    @property
    def mark_ms(self) -> int:
        """The watermark; before all times where there is none."""
        return NO_WATERMARK if self.watermark_ms is None else self.watermark_ms


def watermarks(event_ms: Ints, delay_ms: int, before: StreamTime) -> tuple[Ints, StreamTime]:
    """The watermark at each row, by the event times up to it in the order of the offsets; and the time behind them.

    So it does not matter where micro-batches end. With a longer delay than before it stands still until the stream time
    has caught up.

    Args:
        event_ms: of the rows, epoch ms, in the order of the offsets; at least one.
        delay_ms: by how much the watermark lies behind the stream time.
    """
    seen = _stream_times(event_ms, before)
    marks = np.maximum(seen - delay_ms, before.mark_ms)
    return marks, StreamTime(int(seen[-1]), int(marks[-1]))


@dataclass(frozen=True)
class Lateness:
    """How far rows were behind the stream time.

    Args:
        rows: how many.
        total_ms: of all of them together.
        max_ms: of the one that was furthest behind.
    """

    rows: int
    total_ms: float
    max_ms: int


def lateness(event_ms: Ints, before: StreamTime) -> Lateness:
    """How far each row was behind the greatest event time up to it: 0 for one that moves time, as in Kafka Streams.

    Args:
        event_ms: of the rows, epoch ms, in the order of the offsets; at least one.
    """
    behind = _stream_times(event_ms, before) - event_ms
    return Lateness(len(behind), float(behind.sum(dtype=np.float64)), int(behind.max()))


def _stream_times(event_ms: Ints, before: StreamTime) -> Ints:
    seen: Ints = np.maximum.accumulate(event_ms)
    return seen if before.stream_time_ms is None else np.maximum(seen, before.stream_time_ms)


def known(mark: int) -> int | None:
    """A watermark as it is kept."""
    return None if mark == NO_WATERMARK else mark
