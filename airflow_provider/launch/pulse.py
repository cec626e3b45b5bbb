"""A sign of life for who looks on the same host, and whether it has been away for too long: it needs no broker."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_provider.control.records.status import InstanceState


@dataclass(frozen=True)
class Beat:
    """The last sign of life.

    Args:
        state: of the instance then.
        at_ns: when that was, epoch ns of the host.
    """

    state: InstanceState
    at_ns: int


class Pulse:
    """The file that an instance's heartbeat touches.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._new = path, path.with_suffix(".new")
        self._written: InstanceState | None = None

    def beat(self, state: InstanceState) -> None:
        """Write the state, whole for whoever reads meanwhile; what cannot be written shows as silence."""
        with suppress(OSError):
            if state is not self._written or not self._path.exists():
                self._new.write_text(state.value)
                self._new.replace(self._path)
                self._written = state
            else:  # which takes no room on a full disk
                os.utime(self._path)

    def remove(self) -> None:
        """Leave nothing, also of a beat in the middle of which the process was killed."""
        self._path.unlink(missing_ok=True)
        self._new.unlink(missing_ok=True)

    def last(self) -> Beat | None:
        """The newest one; None before the first, and where it cannot be read."""
        try:
            at_ns = self._path.stat().st_mtime_ns
            return Beat(InstanceState(self._path.read_text()), at_ns)
        except (OSError, ValueError):
            return None


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
