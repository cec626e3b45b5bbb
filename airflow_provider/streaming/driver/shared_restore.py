"""One task's restore by ranges, as its driver sees it: ranges are written side by side and taken over in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from airflow_provider.changelog.sst_range import SstRange, split

__all__ = ["SharedRestore"]

_AHEAD = 4
_PATIENCE = 20


class SharedRestore:
    """Hands out the next ranges to write, and the written ones to take over, oldest first.

    Args:
        begin: the store's position.
        end: offset up to which it goes; what comes after is read as any other standby reads it.
        offsets: of one range.
        parallelism: how many are written at the same time.
        write: writes one range; called in threads.
    """

    def __init__(
        self, begin: int, end: int, offsets: int, parallelism: int, write: Callable[[int, int], SstRange]
    ) -> None:
        self.end = end
        self._todo = deque(split(begin, end, offsets))
        self._write = write
        self._parallelism = parallelism
        self._pool = ThreadPoolExecutor(parallelism, "range")
        self._written: deque[tuple[int, Future[SstRange]]] = deque()
        self._position = begin
        self._calls_without_progress = 0
        self._fill()

    def ready(self) -> tuple[SstRange, ...]:
        """What can be taken over, in order.

        Raises:
            Exception: the next range could not be written.
        """
        found: list[SstRange] = []
        for planned_end, future in self._written:
            if not future.done():
                break
            if future.exception() is not None and found:
                break
            found.append(future.result())
            if found[-1].end < planned_end:  # a transaction is open there: what follows is left to the follower
                self.end = found[-1].end
                break
        return tuple(found)

    def advance(self, position: int) -> None:
        """Note how far the store is after it got what is ready.

        Raises:
            TimeoutError: it does not take over what is ready.
        """
        self._calls_without_progress = (
            0 if position > self._position or not self.ready() else (self._calls_without_progress + 1)
        )
        if self._calls_without_progress > _PATIENCE:
            raise TimeoutError(f"the store stays at {self._position} although the next range is written")
        self._position = position
        while self._written and self._written[0][0] <= position:
            self._written.popleft()
        self._fill()

    @property
    def done(self) -> bool:
        """Whether the store stands at the end of the ranges."""
        return self._position >= self.end

    def close(self) -> None:
        """Begin nothing more; what is being written ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fill(self) -> None:
        # Bounded ahead of the store: files that are not taken over must not fill the disk.
        while self._todo and len(self._written) < self._parallelism * _AHEAD:
            begin, end = self._todo.popleft()
            self._written.append((end, self._pool.submit(self._write, begin, end)))
