"""How many files a process may open: a JVM that has too few ends in the middle of its start, and says so badly."""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

from airflow_provider.errors import ConfigurationError

__all__ = ["check_file_limit", "raise_file_limit"]

_LEAST: Final = 1024
"""A driver, its JVM with Spark's jars and one task open some 600."""
_WANTED: Final = 65_536


def check_file_limit() -> None:
    """Refuse to start an instance where the host allows too few open files.

    Raises:
        ConfigurationError: even the hard limit is too low.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _LEAST:
        raise ConfigurationError(
            f"A process may open {hard} files here, and an instance needs {_LEAST} at the least, {_WANTED} for many "
            "tasks: raise the limit (LimitNOFILE= of a systemd unit, minfds of supervisor, ulimit -n in a shell, the "
            "container runtime's)."
        )


def raise_file_limit() -> None:
    """Let this process, and what it starts, open as many files as it may: the JVM does so itself, Python does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
