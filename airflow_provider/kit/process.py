"""A process that is identified for certain, although its number may be given to another process after its end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import Final

import psutil

_POLL_S: Final = 0.02
# More than what rounding makes of one start, less than the time until a number is given out again.
_TOLERANCE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class GroupLeader:
    """A process that leads a process group of its own, so that its pid names the group too.

    Args:
        started: when it started, as `started_at` has it; 0.0 for a process that had already ended.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> GroupLeader:
        """Identify the process that has this pid now."""
        return cls(pid, started_at(pid) or 0.0)

    def is_alive(self) -> bool:
        """Return whether it runs.

        A process that ended and was not waited for is dead, and so is one whose pid belongs to another process now.
        """
        started = started_at(self.pid)
        return started is not None and abs(started - self.started) <= _TOLERANCE_S

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; do nothing when the leader is dead."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def has_ended(self, within_s: float) -> bool:
        """Wait for its end, and return whether it came in time."""
        deadline = time.monotonic() + within_s
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True


def started_at(pid: int) -> float | None:
    """Return when a living process started, in seconds; None when there is none.

    Setting the clock does not change it: on Linux it is counted from the machine's boot, as the system keeps it, and
    elsewhere from the epoch.
    """
    booted = psutil.boot_time() if psutil.LINUX else 0.0
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return process.create_time() - booted
    except psutil.NoSuchProcess:
        return None
