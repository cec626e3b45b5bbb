"""Interrupts a user's function that does not return."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

__all__ = ["time_limit"]

_NO_LIMIT: Final = contextlib.nullcontext()


def time_limit(seconds: float | None) -> AbstractContextManager[None]:
    """Raise `TimeoutError` in the block when it takes longer.

    By an alarm signal, so it interrupts Python code and what waits in the kernel, in the main thread, where Spark's
    worker runs functions. It does not interrupt a library that computes without returning to Python.

    Args:
        seconds: the limit; None for none.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        return _NO_LIMIT
    return _interrupted_after(seconds)


@contextlib.contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    def expired(*_: object) -> None:
        raise TimeoutError(f"it did not return within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
