"""Ends a process group when the process that started it is gone, however that ended.

The guard holds the reading end of a pipe whose writing end its parent keeps. The system closes that end when the
parent dies, also by SIGKILL; then the guard kills the group. Unlike Linux's parent-death signal this works on
every POSIX system and does not depend on the thread that started the process.

A child that the parent forked without exec holds a copy of the writing end: the guard then waits for it too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from airflow_provider.kit.process import GroupLeader


def start_guard(leader: GroupLeader) -> subprocess.Popen[bytes]:
    """Have the group of `leader` killed when this process dies.

    Kill the guard itself once the group has ended in an orderly way.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "airflow_provider.kit.guard", str(leader.pid), str(leader.started)],
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
