"""The processes of a launched instance."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Final

import psutil

__all__ = ["kill_instance"]

_SWEEPS: Final = 50
_SWEEP_S: Final = 0.02


def kill_instance(process_group: int) -> None:
    """Kill the group of an instance, and what left the group but not the launcher's session, as Spark's daemon does.

    The daemon would end with the JVM by itself; one that stands still does not, and its workers hold the stores. To be
    called by the launcher, which leads the session; where it does not (it was started from a shell, whose other
    processes share the session), only the group is killed.

    Args:
        process_group: its id.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_group, signal.SIGKILL)
    launcher = os.getpid()
    if os.getsid(0) != launcher:
        return
    # What a dying process still starts is found by the next sweep.
    for _ in range(_SWEEPS):
        left = list(_others_of_session(launcher))
        if not left:
            return
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(_SWEEP_S)


def _others_of_session(leader: int) -> Iterator[psutil.Process]:
    """The living processes of a session but its leader."""
    for process in psutil.process_iter(["status"]):
        if process.pid == leader or process.info["status"] in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            continue
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == leader:
                yield process
