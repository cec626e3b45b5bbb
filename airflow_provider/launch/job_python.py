"""A Python of the job's own, beside Airflow's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.launcher import LAUNCHER

__all__ = ["check_python"]

_TIMEOUT_S: Final = 120.0


def check_python(python: str) -> None:
    """Refuse an interpreter that could not run a launcher.

    Args:
        python: its absolute path on this host; empty for this one, which needs no look.

    Raises:
        ConfigurationError: it is not there, or this package is not installed there.
    """
    if not python:
        return
    if not Path(python).is_absolute() or not os.access(python, os.X_OK):
        raise ConfigurationError(f"There is no interpreter {python!r} on this host: name its absolute path.")
    # Without the current folder on the path, as it is launched.
    command = [python, "-P", "-c", f"import {LAUNCHER}"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{python} cannot be run ({error}): name the job's own interpreter.") from error
    if asked.returncode != 0:
        why = asked.stderr.strip().rpartition("\n")[2]
        raise ConfigurationError(f"{python} cannot run a launcher ({why}): install this package and pyspark there.")
