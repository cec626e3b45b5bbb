"""Work in a thread that can be left behind, because not everything that is waited for ever answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["in_background"]

T = TypeVar("T")


def in_background(name: str, work: Callable[[], T]) -> Future[T]:
    """Begin `work` in a daemon thread; the process does not wait for it when it ends."""
    done = Future[T]()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
