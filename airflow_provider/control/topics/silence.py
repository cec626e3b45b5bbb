"""How long each instance has sent no heartbeat, by the observer's own monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class SilenceClock:
    """Counts the silence of instances so that only an instance's own silence counts, never an outage of the observer.

    The caller passes the time in, so that nothing here knows a clock.
    """

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._expected: dict[str, float] = {}
        self._since = 0.0

    def heard(self, instance: str, now: float) -> None:
        """A heartbeat of an instance was read."""
        self._heard[instance] = now

    def expect(self, instances: Iterable[str], now: float) -> None:
        """Count the silence of these too although they never sent a heartbeat: since they are first expected."""
        self._expected = {name: self._expected.get(name, now) for name in instances}

    def restart(self, now: float) -> None:
        """Begin again for every instance: until now the observer could not have read a heartbeat."""
        self._since = now

    def silent_for_s(self, now: float) -> Mapping[str, float]:
        """Seconds of silence of each that sent a heartbeat or is expected to, none longer than the observer reads."""
        return {name: now - max(at, self._since) for name, at in (self._expected | self._heard).items()}

    def heard_since(self) -> frozenset[str]:
        """Instances that sent a heartbeat since the observer reads; what history says of others may be long past."""
        return frozenset(name for name, heard in self._heard.items() if heard > self._since)

    def longest_s(self, instances: Iterable[str], now: float) -> float:
        """The longest silence among these; 0 when none of them ever sent a heartbeat."""
        silent = self.silent_for_s(now)
        return max((silent.get(name, 0.0) for name in instances), default=0.0)
