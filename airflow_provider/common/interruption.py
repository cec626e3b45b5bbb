"""An end that a person or a service manager asks for, as one exception."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interruptible"]


@contextmanager
def interruptible(*numbers: signal.Signals) -> Iterator[None]:
    """Within it, each of these signals raises KeyboardInterrupt, also where the shell had SIGINT ignored.

    Args:
        numbers: such as ``signal.SIGINT``.
    """
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
