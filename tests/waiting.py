"""Waiting on a state, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], deadline_s: float, what: str, poll_s: float = 0.02) -> T:
    """Call `predicate` until it returns something true, and return that.

    Fails the test after `deadline_s`, saying what was waited for and what the predicate said last.
    """
    deadline = time.monotonic() + deadline_s
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {deadline_s:g} s for {what}; the last look said {value!r}")
        time.sleep(poll_s)
    return value
