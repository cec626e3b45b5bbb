"""Work in a thread of its own, which can be left behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Begin `work` in a daemon thread; its result or error is in the future.

    Unlike a pool's, the thread does not delay the exit of the process: work that never returns can be left behind.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # it is raised where the future is read
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future
