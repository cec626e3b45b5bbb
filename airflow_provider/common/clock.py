"""The time of day of this host."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Epoch ms. For records and people; what is decided about durations uses a monotonic clock."""
    return time.time_ns() // 1_000_000
