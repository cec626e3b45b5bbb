"""An end that a person or a service manager asks for, as one exception."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interruptible(*numbers: signal.Signals) -> Iterator[None]:
    """Within it, each of these signals raises KeyboardInterrupt, also where the shell had SIGINT ignored."""
    with _handled_by(signal.default_int_handler, *numbers):
        yield


@contextmanager
def ignored(*numbers: signal.Signals) -> Iterator[None]:
    """Within it, the signals that asked for the end ask for nothing more."""
    with _handled_by(signal.SIG_IGN, *numbers):
        yield


@contextmanager
def _handled_by(handler: Callable[..., object] | signal.Handlers, *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
