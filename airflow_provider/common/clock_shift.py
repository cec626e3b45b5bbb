"""A time of day that is ahead of the host's, for a drill."""

from __future__ import annotations

import time

__all__ = ["shift_clock"]

_time, _time_ns = time.time, time.time_ns
_shift_s = 0.0


def shift_clock(seconds: float) -> None:
    """Have `time.time` and `time.time_ns` of this process run ahead of the host's clock from now on.

    Only what asks Python for the time is deceived: not the JVM, not librdkafka, not `datetime`. The monotonic clock
    stays as it is, as it does when a host's clock is set.

    Args:
        seconds: how far; 0 puts both back.
    """
    global _shift_s  # the process has one time of day
    if seconds == _shift_s:
        return
    _shift_s = seconds
    time.time = _time if seconds == 0 else lambda: _time() + seconds
    time.time_ns = _time_ns if seconds == 0 else lambda: _time_ns() + round(seconds * 1e9)
