"""What the stores of a slot are asked for, until a call takes it along."""

from __future__ import annotations

from collections import deque
from typing import Final

from airflow_provider.streaming.worker.tasks.plan import KeyLookup

_MOST: Final = 32
_AT_ONCE: Final = 8
_PAUSE: Final = 9


class WaitingLookups:
    """What waits for a call of a slot, and when one is worth making for it.

    A call with lookups that brought no rows is not followed by another one for nine times as long as it took: so they
    take a tenth of the slot's time at the most, whoever asks how often. What would wait for long is refused.
    """

    def __init__(self) -> None:
        self._waiting: deque[KeyLookup] = deque()
        self._taken = False
        self._not_before = 0.0

    def put(self, lookup: KeyLookup) -> bool:
        """Have it wait for a call; False where too much waits already."""
        if len(self._waiting) >= _MOST:
            return False
        self._waiting.append(lookup)
        return True

    def due(self, now: float) -> bool:
        """Whether a call is worth making for them alone."""
        return bool(self._waiting) and now >= self._not_before

    def take(self) -> tuple[KeyLookup, ...]:
        """Those that go with a call."""
        taken = tuple(self._waiting.popleft() for _ in range(min(len(self._waiting), _AT_ONCE)))
        self._taken = bool(taken)
        return taken

    def called(self, began: float, ended: float) -> None:
        """A call without rows came back."""
        if self._taken:
            self._not_before = ended + _PAUSE * (ended - began)
