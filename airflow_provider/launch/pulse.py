"""A sign of life for who looks on the same host: it needs no broker."""

from __future__ import annotations

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
        self._path = path

    def beat(self, state: InstanceState) -> None:
        """Write the state; what cannot be written shows as silence."""
        with suppress(OSError):
            self._path.write_text(state.value)

    def last(self) -> Beat | None:
        """The newest one; None before the first."""
        try:
            at_ns = self._path.stat().st_mtime_ns
            return Beat(InstanceState(self._path.read_text()), at_ns)
        except (OSError, ValueError):
            return None
