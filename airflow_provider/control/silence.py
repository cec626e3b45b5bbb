"""How long each instance has not been heard of, by the observer's own monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["SilenceClock"]


class SilenceClock:
    """Counts the silence of instances so that only an instance's own silence counts, never the observer's deafness.

    The caller passes the time in, so that nothing here knows a clock.
    """

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._since = 0.0

    def heard(self, instance: str, now: float) -> None:
        """An instance was heard of."""
        self._heard[instance] = now

    def restart(self, now: float) -> None:
        """Begin anew for everybody: until now the observer could not have heard them."""
        self._since = now

    def silent_for_s(self, now: float) -> Mapping[str, float]:
        """Seconds of silence of each instance that was ever heard of, none longer than the observer listens."""
        return {name: now - max(heard, self._since) for name, heard in self._heard.items()}

    def heard_since(self) -> frozenset[str]:
        """Instances that were heard of since the observer listens; what history tells of others may be long past."""
        return frozenset(name for name, heard in self._heard.items() if heard > self._since)

    def longest_s(self, instances: Iterable[str], now: float) -> float:
        """The longest silence among these; 0 when none of them was ever heard of."""
        silent = self.silent_for_s(now)
        return max((silent.get(name, 0.0) for name in instances), default=0.0)
