"""Named places where a test can make a process die.

Nothing is armed unless an instance's settings name it, and then it fires once per state folder: a marker file
remembers it, because the process that comes after must get past.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

__all__ = ["FailPoints"]


class FailPoints:
    """Fail points that are armed in this process.

    Args:
        armed: ``name`` or ``name@n``: die at the n-th time (default the first) that `hit` sees the name.
        marker_dir: where it is remembered that one fired.
    """

    def __init__(self, armed: Sequence[str] = (), marker_dir: Path | None = None) -> None:
        self._left: dict[str, int] = {}
        self._marker_dir = marker_dir
        for entry in armed:
            name, _, count = entry.partition("@")
            self._left[name] = int(count or 1)

    def hit(self, name: str) -> None:
        """Die with SIGKILL if `name` is armed and its time has come; else nothing."""
        if not self._left or name not in self._left:
            return
        self._left[name] -= 1
        if self._left[name] > 0:
            return
        del self._left[name]
        if self._marker_dir is not None:
            marker = self._marker_dir / f"failpoint-{name}"
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                return
        os.kill(os.getpid(), signal.SIGKILL)
