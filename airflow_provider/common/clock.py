"""The time of day of this host, and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_Told = TypeVar("_Told")


def now_ms() -> int:
    """Epoch ms. For records and people; what is decided about durations uses a monotonic clock."""
    return time.time_ns() // 1_000_000


def wait_until(condition: Callable[[], _Told], within_s: float, pause_s: float) -> _Told:
    """Ask again and again, at least once, until it is so. What was told last: nothing true where the time is over."""
    deadline = time.monotonic() + within_s
    while not (told := condition()) and time.monotonic() <= deadline:
        time.sleep(pause_s)
    return told
