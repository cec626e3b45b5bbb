"""Moves the clock of every Python process of an instance: the seconds in the file that ``CHAOS_CLOCK`` names are added.

Python imports this by itself, because its folder leads the path of the instance. What is not Python keeps its time:
the JVM, and the timestamps that librdkafka puts on records.
"""

import os
import time
from pathlib import Path

_file = os.environ.get("CHAOS_CLOCK")
_time, _time_ns, _monotonic = time.time, time.time_ns, time.monotonic
_LOOK_S = 0.2
_shift_s, _looked_at = 0, float("-inf")


def _shift() -> int:
    global _shift_s, _looked_at
    now = _monotonic()
    if now - _looked_at > _LOOK_S:
        _looked_at = now
        try:
            _shift_s = int(Path(str(_file)).read_text() or 0)
        except (OSError, ValueError):
            _shift_s = 0
    return _shift_s


if _file:
    time.time = lambda: _time() + _shift()
    time.time_ns = lambda: _time_ns() + _shift() * 1_000_000_000
