"""How long an instance has given no sign of life, for who would kill it."""

from __future__ import annotations

from airflow_provider.launch.pulse import Pulse

__all__ = ["Silence"]


class Silence:
    """Counts looks and no seconds, so that a host that slept, on which nothing could give a sign, counts none.

    A pulse that is not there or cannot be read is no sign of life. Before the first one a start has its time besides:
    Spark and the job file are loaded until then.

    Args:
        pulse: of the instance's process.
        look_s: how far two looks are apart at least, in seconds.
        hang_s: how long it may give no sign, in seconds.
        start_s: how long it may start before that counts, in seconds.
    """

    def __init__(self, pulse: Pulse, *, look_s: float, hang_s: float, start_s: float) -> None:
        self._pulse, self._look_s, self._hang_s, self._start_s = pulse, look_s, hang_s, start_s
        self._at_ns: int | None = None
        self._looks = 0

    @property
    def limit_s(self) -> float:
        """How long it may last just now, in seconds."""
        return self._hang_s if self._at_ns is not None else self._start_s + self._hang_s

    def lasts_too_long(self) -> bool:
        """Look once more."""
        beat = self._pulse.last()
        if beat is not None and beat.at_ns != self._at_ns:
            self._at_ns, self._looks = beat.at_ns, 0
        else:
            self._looks += 1
        return self._looks * self._look_s > self.limit_s
