"""A process that was started here, with a log, in a process group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from airflow_provider.kit.guard import start_guard
from airflow_provider.kit.process import GroupLeader

_POLL_S: Final = 0.05
_REAP_S: Final = 10.0


class Child:
    """A started process and everything that it starts in turn.

    Args:
        name: used in messages.
        log_file: where its output goes, after what is already there.
        env: its whole environment; None for that of this process.
        die_with_parent: whether it is killed when this process is gone, however that ended.
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
        timeout_s: for all of them together.
    """
    for leader in leaders:
        leader.signal_group(signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while any(leader.is_alive() for leader in leaders) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    for leader in leaders:
        # The leader may be gone before the others; its number stays theirs as long as one of them lives.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader.pid, signal.SIGKILL)
