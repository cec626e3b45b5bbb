"""What a host has for an instance: the job's own Python, and what would end it together with its worker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.launcher import LAUNCHER

_CONTAINER_WORDS: Final = ("kubepods", "docker", "containerd", "libpod", "crio")
_MARKS: Final = ("/.dockerenv", "/run/.containerenv")
_WAY_OUT: Final = "docs/deployment.md says what to do"


def ends_with(cgroup: str, environment: Mapping[str, str], container: bool = False) -> str | None:
    """What this process's children end with although they lead sessions of their own; None where nothing is seen.

    Args:
        cgroup: content of ``/proc/self/cgroup``.
        container: whether a container runtime has left its mark in the file system.
    """
    paths = [line.split(":", 2)[-1] for line in cgroup.splitlines()]
    if "KUBERNETES_SERVICE_HOST" in environment:
        return (
            "This worker is a pod: the instance ends with it, and its stores too where they lie on no volume. Use "
            f'Instance(placement="supervised") with a StatefulSet, or give the worker a volume; {_WAY_OUT}.'
        )
    if container or "container" in environment or any(word in path for path in paths for word in _CONTAINER_WORDS):
        return (
            "This worker is in a container: the instance ends with it, and its stores too where they lie on no "
            f'volume. Use Instance(placement="supervised"), or a worker on the bare host; {_WAY_OUT}.'
        )
    units = [part for path in paths for part in path.split("/") if part.endswith((".service", ".scope"))]
    service = next((unit for unit in units if unit.endswith(".service") and not unit.startswith("user@")), None)
    if service is not None and not (units and units[-1].endswith(".scope")):
        return (
            f"This worker is the systemd unit {service}: unless that says KillMode=process, a restart of it ends the "
            f"instance too; {_WAY_OUT}."
        )
    return None


def surroundings_warning() -> str | None:
    """`ends_with` of this process; None where that cannot be found out."""
    try:
        cgroup = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return None
    return ends_with(cgroup, os.environ, any(Path(mark).exists() for mark in _MARKS))


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
