"""Work in a thread of its own, which can be left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event, Thread
from typing import TypeVar

from airflow_provider.error_text import LastReported

log = logging.getLogger(__name__)

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


class Background:
    """Works in a daemon thread until it is told to stop; `run` looks at `stopped` now and then."""

    def __init__(self, name: str) -> None:
        self.stopped = Event()
        self._thread = Thread(target=self.run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Do no more; returns at once, and does not wait for what is under way."""
        self.stopped.set()

    def run(self) -> None:
        """What the thread does."""
        raise NotImplementedError


class RepeatedLook(Background):
    """Looks again and again, in a daemon thread. What goes wrong is a line in the log, once until it changes.

    Args:
        name: of the thread.
        interval_s: between two looks; the first comes after it, too.
        failed: what is not done where a look raises, in words.
    """

    def __init__(self, name: str, interval_s: float, failed: str) -> None:
        super().__init__(name)
        self._interval_s, self._failed = interval_s, failed
        self._reported = LastReported()

    def look(self) -> None:
        """Do what there is to do now."""
        raise NotImplementedError

    def leave(self) -> None:
        """Called by the thread when it ends."""

    def attempt(self) -> None:
        """Look, whatever comes of it."""
        try:
            self.look()
            self._reported.over()
        except Exception as error:
            if not self.stopped.is_set() and self._reported.is_news(error):
                log.warning("%s: %s: %s", self._failed, type(error).__name__, error)

    def run(self) -> None:
        while not self.stopped.wait(self._interval_s):
            self.attempt()
        self.leave()
