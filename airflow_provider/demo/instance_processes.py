"""The processes of the instances that Airflow launched: to end all of them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import psutil

_LAUNCHER: Final = "airflow_provider.launch.launcher"
_GONE: Final = (psutil.NoSuchProcess, psutil.AccessDenied)


def launchers_under(run_dir: Path) -> list[psutil.Process]:
    """Return the living launchers of the instances whose folders lie in `run_dir`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(*_GONE):
            command = process.cmdline()
            if _LAUNCHER in command and Path(command[-1]).parent == run_dir and process.status() != "zombie":
                found.append(process)
    return found


def end_launchers(run_dir: Path, timeout_s: float) -> None:
    """Stop the instances cleanly, and kill what is left after the timeout; return when all are gone.

    Args:
        run_dir: where their folders lie.
        timeout_s: for the clean stop, which needs the broker.
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
