"""A sign of life for who looks on the same host: it needs no broker."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_provider.control.status import InstanceState

__all__ = ["Beat", "Pulse"]


@dataclass(frozen=True)
class Beat:
    """The last sign of life.

    Args:
        state: of the instance then.
        at_ns: when that was, epoch ns of the host.
    """

    state: InstanceState
    at_ns: int


class Pulse:
    """The file that an instance's heartbeat touches.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._new = path, path.with_suffix(".new")
        self._written: InstanceState | None = None

    def beat(self, state: InstanceState) -> None:
        """Write the state, whole for whoever reads meanwhile; what cannot be written shows as silence."""
        with suppress(OSError):
            if state is not self._written or not self._path.exists():
                self._new.write_text(state.value)
                self._new.replace(self._path)
                self._written = state
            else:  # which takes no room on a full disk
                os.utime(self._path)

    def remove(self) -> None:
        """Leave nothing, also of a beat in the middle of which the process was killed."""
        self._path.unlink(missing_ok=True)
        self._new.unlink(missing_ok=True)

    def last(self) -> Beat | None:
        """The newest one; None before the first, and where it cannot be read."""
        try:
            at_ns = self._path.stat().st_mtime_ns
            return Beat(InstanceState(self._path.read_text()), at_ns)
        except (OSError, ValueError):
            return None
