"""A process of the demo, with a log, in a process group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from airflow_provider.embedded.guard import start_guard
from airflow_provider.embedded.process import GroupLeader

__all__ = ["Child", "end_groups"]

_POLL_S: Final = 0.05


class Child:
    """A started process and everything that it starts in turn.

    Args:
        name: for messages; also the name of its log.
        leader: the process, which leads its group.
        log_file: where its output goes.
        process: as `subprocess` knows it.
        guard: ends the group when this process is gone; None where it shall live on.
    """

    def __init__(
        self,
        name: str,
        leader: GroupLeader,
        log_file: Path,
        process: subprocess.Popen[bytes],
        guard: subprocess.Popen[bytes] | None,
    ) -> None:
        self.name, self.leader, self.log_file, self._process, self._guard = name, leader, log_file, process, guard

    @classmethod
    def start(
        cls, name: str, command: Sequence[str], env: Mapping[str, str], logs: Path, die_with_parent: bool = True
    ) -> Child:
        """Start a command.

        Args:
            name: for messages and the log.
            command: the program and its arguments.
            env: its whole environment.
            logs: folder of the log.
            die_with_parent: whether it is killed when this process is gone, however that ended.
        """
        logs.mkdir(parents=True, exist_ok=True)
        log_file = logs / f"{name}.log"
        with log_file.open("ab") as log:
            process = subprocess.Popen(
                list(command),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        leader = GroupLeader.of(process.pid)
        return cls(name, leader, log_file, process, start_guard(leader) if die_with_parent else None)

    @property
    def exit_status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end; None when it takes longer."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def end(self, timeout_s: float) -> None:
        """End it and its group, with SIGKILL when it takes longer; returns when all are gone."""
        end_groups([self.leader], timeout_s)
        self.forget()

    def forget(self) -> None:
        """Take note of its end, so that nothing of it stays behind."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)


def end_groups(leaders: Sequence[GroupLeader], timeout_s: float) -> None:
    """Ask groups to end, all at once, and kill what is left of them after the timeout.

    Args:
        leaders: of living groups, or our own children: the number of another dead process may be somebody else's.
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
