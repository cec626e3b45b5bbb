"""The time of day of this host, and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable


def now_ms() -> int:
    """Epoch ms. For records and people; what is decided about durations uses a monotonic clock."""
    return time.time_ns() // 1_000_000


def wait_until(condition: Callable[[], object], within_s: float, pause_s: float) -> bool:
    """Ask again and again, at least once. Whether it was true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True
