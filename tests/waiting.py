"""Waiting on a state, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_REST: Final = 5
"""How many times as long as a look took of the processor nothing is looked at: what is waited for needs it too."""
_LONGEST_REST_S: Final = 1.0


def wait_until(predicate: Callable[[], T], deadline_s: float, what: str, poll_s: float = 0.02) -> T:
    """Call `predicate` until it returns something true, and return that.

    Fails the test after `deadline_s`, saying what was waited for and what the predicate said last. It looks again after
    `poll_s`, or later where a look is dear.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        used_s = time.process_time()
        if value := predicate():
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {deadline_s:g} s for {what}; the last look said {value!r}")
        rest_s = _REST * (time.process_time() - used_s)
        time.sleep(max(poll_s, min(rest_s, _LONGEST_REST_S)))
