"""What would end a launched instance together with the worker that launched it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["ends_with", "surroundings_warning"]

_CONTAINER_WORDS: Final = ("kubepods", "docker", "containerd", "libpod", "crio")
_MARKS: Final = ("/.dockerenv", "/run/.containerenv")
_WAY_OUT: Final = "docs/deployment.md says what to do"


def ends_with(cgroup: str, environment: Mapping[str, str], container: bool = False) -> str | None:
    """What this process's children end with although they lead sessions of their own; None where nothing is seen.

    Args:
        cgroup: content of ``/proc/self/cgroup``.
        environment: of the process.
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
