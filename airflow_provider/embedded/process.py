"""A process that is known for certain, although its number may be given to another after its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GroupLeader", "started_at"]

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class GroupLeader:
    """A process that leads a process group of its own, so that its pid names the group too.

    Args:
        pid: its number.
        started: what `started_at` said of it when it was started.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> GroupLeader:
        """Take down who has this pid now."""
        return cls(pid, started_at(pid) or "")

    def is_alive(self) -> bool:
        """Whether it runs. A process that ended and was not waited for is dead; one that took over its pid too."""
        return bool(self.started) and started_at(self.pid) == self.started

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; to nobody when the leader is dead."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def has_ended(self, within_s: float) -> bool:
        """Wait for its end, and say whether it came in time."""
        deadline = time.monotonic() + within_s
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True


def started_at(pid: int) -> str | None:
    """When a living process started, in whatever words the system has for it; None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _started_at_by_ps(pid)
    # The second field is the command's name in brackets, which may itself hold brackets and blanks.
    fields = text[text.rindex(")") + 2 :].split()
    state, start_ticks = fields[0], fields[19]
    return None if state in "ZX" else start_ticks


def _started_at_by_ps(pid: int) -> str | None:
    done = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = done.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()
