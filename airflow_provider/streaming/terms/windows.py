"""Windows of event time, in the words of ``pyspark.sql.functions``: what ``group_by()`` takes beside its column."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.terms.argument_check import check_kind, duration_ms, duration_text


@dataclass(frozen=True, kw_only=True)
class Window:
    """Windows of one size, which begin in equal distances: from `start` (included) to `start` + `size` (excluded).

    Args:
        slide_ms: from the start of one to the start of the next; `size_ms` for windows that do not overlap.
        offset_ms: where one of them starts, from 1970-01-01T00:00:00Z on; below `slide_ms`, may be negative.
    """

    column: str
    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    @property
    def text(self) -> str:
        """What the bytes of a state depend on; one text for windows that are the same."""
        parts = [self.column, duration_text(self.size_ms)]
        start = self.offset_ms % self.slide_ms
        if self.slide_ms != self.size_ms or start:
            parts.append(duration_text(self.slide_ms))
        return f"window({', '.join(parts + ([duration_text(start)] if start else []))})"


@dataclass(frozen=True, kw_only=True)
class SessionWindow:
    """Windows by group that go on while records come: each ends `gap` after its last record's time.

    Args:
        gap_ms: without a record, after which it ends.
    """

    column: str
    gap_ms: int

    @property
    def text(self) -> str:
        """As `Window.text`."""
        return f"session_window({self.column}, {duration_text(self.gap_ms)})"


def window(
    timeColumn: str, windowDuration: str, slideDuration: str | None = None, startTime: str | None = None
) -> Window:
    """Windows of one size, as PySpark's ``window``: tumbling, or hopping where a slide is given.

    Args:
        timeColumn: the column that ``stream(event_time=...)`` names.
        windowDuration: how long a window is, such as ``"1 hour"``.
        slideDuration: from the start of one to the start of the next, at most `windowDuration`; default the same, so
            that windows do not overlap. A record counts in every window that its time lies in.
        startTime: by how much windows start later than at 1970-01-01T00:00:00Z, such as ``"15 minutes"`` for hours that
            begin at a quarter past; default not at all.

    Raises:
        ConfigurationError: a duration is none, or the slide is longer than the window.
    """
    check_kind("window() got timeColumn=", timeColumn, str, "the name of a column")
    size = duration_ms("window()", windowDuration)
    slide = size if slideDuration is None else duration_ms("window()", slideDuration)
    offset = 0 if startTime is None else duration_ms("window(startTime=...)", startTime, zero=True)
    if slide > size:
        raise ConfigurationError(
            f"window() got the slide {slideDuration!r} for windows of {windowDuration!r}: records between two windows "
            "would belong to none. Give a slide that is not longer, or filter() those records out."
        )
    if offset >= slide:
        raise ConfigurationError(
            f"window() got startTime={startTime!r}: it has to be shorter than {duration_text(slide)}, after which "
            "the next window starts."
        )
    return Window(column=timeColumn, size_ms=size, slide_ms=slide, offset_ms=offset)


def session_window(timeColumn: str, gapDuration: str) -> SessionWindow:
    """Windows by group that go on while records come, as PySpark's ``session_window``.

    Args:
        timeColumn: the column that ``stream(event_time=...)`` names.
        gapDuration: how long a session lasts after its last record, such as ``"5 minutes"``. Two sessions that overlap
            or touch become one.

    Raises:
        ConfigurationError: the duration is none.
    """
    check_kind("session_window() got timeColumn=", timeColumn, str, "the name of a column")
    return SessionWindow(column=timeColumn, gap_ms=duration_ms("session_window()", gapDuration))
