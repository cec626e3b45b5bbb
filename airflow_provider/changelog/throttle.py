"""Keeps what is read below a rate."""

from __future__ import annotations

__all__ = ["Throttle"]


class Throttle:
    """Says how long to wait after each piece, so that the mean rate stays below a bound. It owns no clock.

    A token bucket that holds a second's worth: who was idle may catch up for a second at full speed.

    Args:
        max_bytes_per_s: the bound; None for none.
    """

    def __init__(self, max_bytes_per_s: int | None) -> None:
        self._rate = max_bytes_per_s
        self._free_at = 0.0

    def took(self, number: int, now: float) -> None:
        """Some bytes were read at `now`, seconds of a monotonic clock."""
        if self._rate is not None:
            self._free_at = max(self._free_at, now - 1.0) + number / self._rate

    def wait_s(self, now: float) -> float:
        """How long to read nothing from `now` on."""
        return max(0.0, self._free_at - now)
