"""The processes of the instances that Airflow launched: to kill one as a crash would, and to end all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

import psutil

__all__ = ["end_launchers", "kill_instance", "launchers_under"]

_LAUNCHER: Final = "airflow_provider.streaming.launcher"
_GONE: Final = (psutil.NoSuchProcess, psutil.AccessDenied)


def kill_instance(driver_pid: int) -> tuple[int, int]:
    """SIGKILL to a whole instance at once: JVM, driver, Python daemons and workers; not to its launcher.

    Args:
        driver_pid: of the Python driver, as the instance tells it. Its process group is led by the JVM.

    Returns:
        When, epoch ms, and how many processes.
    """
    jvm = psutil.Process(os.getpgid(driver_pid))
    killed: set[int] = set()
    at_ms = time.time_ns() // 1_000_000
    # What a dying process still starts is found by the next look.
    while victims := [p for p in _family(jvm) if p.pid not in killed]:
        for process in victims:
            with contextlib.suppress(*_GONE):
                process.send_signal(signal.SIGKILL)
            killed.add(process.pid)
    return at_ms, len(killed)


def launchers_under(run_dir: Path) -> list[psutil.Process]:
    """The living launchers of the instances whose folders lie in `run_dir`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(*_GONE):
            command = process.cmdline()
            if _LAUNCHER in command and Path(command[-1]).parent == run_dir and process.status() != "zombie":
                found.append(process)
    return found


def end_launchers(run_dir: Path, timeout_s: float) -> None:
    """Let the instances say goodbye, and kill what is left after the timeout; returns when all are gone.

    Args:
        run_dir: where their folders lie.
        timeout_s: for the goodbye, which needs the broker.
    """
    launchers = launchers_under(run_dir)
    families = [*launchers, *(child for launcher in launchers for child in _family(launcher)[1:])]
    for launcher in launchers:
        with contextlib.suppress(*_GONE):
            launcher.terminate()  # it asks the instance to stop
    _, living = psutil.wait_procs(families, timeout=timeout_s)
    for process in living:
        with contextlib.suppress(*_GONE):
            process.kill()
    psutil.wait_procs(living, timeout=5.0)


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except _GONE:
        return []
