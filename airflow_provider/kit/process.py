"""A process that is identified for certain, one that was started here, and a guard that ends it with who started it.

Run as a module, this is the guard.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from airflow_provider.common.clock import wait_until

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
        return wait_until(lambda: not self.is_alive(), within_s, _POLL_S)


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


_GROUPS_POLL_S: Final = 0.05
_REAP_S: Final = 10.0


class Child:
    """A started process and everything that it starts in turn.

    Args:
        log_file: where its output goes, after what is already there.
        env: its whole environment; None for that of this process.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        env: Mapping[str, str] | None = None,
        *,
        die_with_parent: bool = True,
    ) -> None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        self.name, self.log_file = name, log_file
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.leader = GroupLeader.of(self._process.pid)
        self._guard = start_guard(self.leader) if die_with_parent else None

    @property
    def exit_status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end and return its exit status; None when it takes longer."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def end(self, timeout_s: float) -> None:
        """End it and its group, with SIGKILL when it takes longer; return when all are gone."""
        end_groups([self.leader], timeout_s)
        self.reap()

    def reap(self) -> None:
        """Collect the exit status of a process that ended, so that neither it nor its guard stays behind."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        self.wait(_REAP_S)


def end_groups(leaders: Sequence[GroupLeader], timeout_s: float) -> None:
    """Ask groups to end, all at once, and kill what is left of them after the timeout.

    Args:
        leaders: of living groups, or our own children: another dead process's number may be in use again.
    """
    for leader in leaders:
        leader.signal_group(signal.SIGTERM)
    wait_until(lambda: not any(leader.is_alive() for leader in leaders), timeout_s, _GROUPS_POLL_S)
    for leader in leaders:
        # The leader may be gone before the others; its number stays theirs as long as one of them lives.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader.pid, signal.SIGKILL)


def start_guard(leader: GroupLeader) -> subprocess.Popen[bytes]:
    """Have the group of `leader` killed when this process dies.

    Kill the guard itself once the group has ended in an orderly way.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "airflow_provider.kit.process", str(leader.pid), str(leader.started)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main(pid: int, started: float) -> None:
    """Wait for the parent's end, then kill the group if it is still the one that was meant."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    GroupLeader(pid, started).signal_group(signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
