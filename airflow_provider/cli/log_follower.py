"""A log that grows, read piece by piece."""

from __future__ import annotations

from pathlib import Path

__all__ = ["LogFollower"]


class LogFollower:
    """What was written to a file since the last look.

    Args:
        path: the file; it may not be there yet, and is begun anew when it has become too long.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> str:
        """The new text; what is no UTF-8 is replaced."""
        try:
            with self._path.open("rb") as file:
                if self._path.stat().st_size < self._position:
                    self._position = 0
                file.seek(self._position)
                piece = file.read()
        except OSError:
            return ""
        self._position += len(piece)
        return piece.decode("utf-8", "replace")
