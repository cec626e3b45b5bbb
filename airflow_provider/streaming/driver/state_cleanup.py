"""Frees the disk of stores that an instance has not been given for long."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future

from airflow_provider.common.clock import now_ms
from airflow_provider.common.in_thread import in_thread
from airflow_provider.common.task_id import TaskId
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.store_host import StoreHost

__all__ = ["StateCleanup"]

log = logging.getLogger(__name__)


class StateCleanup:
    """Looks each minute.

    Belongs to the instance's thread, which also hands out tasks: so no task is given to a slot while it is set aside.
    What takes time is done in a thread of its own. On a cluster all of it is, because it waits for the executor: a task
    that is given back in the moment in which its store is set aside fails there, and is restored.

    Args:
        host: where the stores lie.
        directory: of the instance's stores.
        after_ms: how long a task may be unassigned before all that its folder holds is removed.
        interval_s: between two looks.
    """

    def __init__(self, host: StoreHost, directory: StateDirectory, after_ms: int, interval_s: float = 60.0) -> None:
        self._host = host
        self._directory = directory
        self._after_ms = after_ms
        self._interval_s = interval_s
        self._due = 0.0
        self._removal: Future[None] | None = None

    def tick(self, held: Callable[[], Collection[TaskId]]) -> None:
        """Look, when it is time.

        Args:
            held: the tasks that the newest assignment gives the instance; called when it is time.
        """
        now = time.monotonic()
        if now < self._due or (self._removal is not None and not self._removal.done()):
            return
        self._due = now + self._interval_s
        retire = functools.partial(_retire, self._directory, frozenset(held()), self._after_ms)
        if not self._host.is_here:
            self._removal = in_thread(functools.partial(self._remove, retire), "state-cleanup")
        elif self._attempt(retire):
            self._removal = in_thread(self._directory.empty_removed, "state-cleanup")

    def _remove(self, retire: Callable[[], bool]) -> None:
        if self._attempt(retire):
            self._host.call(self._directory.empty_removed)

    def _attempt(self, retire: Callable[[], bool]) -> bool:
        try:
            found = self._host.call(retire)
        except Exception as error:
            # A full or read-only disk is reported by the tasks that need it, a lost executor by the instance's end.
            log.warning("stores of tasks that are not given to this instance cannot be removed: %s", error)
            return False
        if found:
            log.info("removing stores of tasks that were not given to this instance for %d s", self._after_ms // 1000)
        return found


def _retire(directory: StateDirectory, held: Collection[TaskId], after_ms: int) -> bool:
    return directory.retire(held, after_ms, now_ms())
