"""Named places where a process dies when its settings say so: what a crash there leaves is what the next owner finds.

Nothing is armed unless an instance's settings name it, and then it fires once per run folder: a marker file
remembers it, because the process that comes after must get past.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from airflow_provider.errors import ConfigurationError


class FailPoint(StrEnum):
    """The places, in the order in which a micro-batch passes them (``docs/protocol.md``)."""

    FENCE_BEFORE = "fence.before"
    FENCE_DONE = "fence.done"
    COMMIT_BEGUN = "commit.begun"
    COMMIT_CHANGES = "commit.changes"
    COMMIT_OUTPUTS = "commit.outputs"
    COMMIT_RECORD = "commit.record"
    COMMIT_OFFSETS = "commit.offsets"
    COMMIT_DONE = "commit.done"
    STORE_BEFORE = "store.before"
    STORE_DONE = "store.done"


def parse_fail_point(text: str) -> tuple[FailPoint, int]:
    """The place of ``name`` or ``name@n``, and at which passing it fires: 1 for the first.

    Raises:
        ConfigurationError: there is no such place, or `n` is no number above 0.
    """
    name, _, count = text.partition("@")
    try:
        point, at = FailPoint(name), int(count or 1)
    except ValueError:
        point, at = None, 0
    if point is None or at < 1:
        raise ConfigurationError(
            f"Found the fail point {text!r}, expected <name> or <name>@<n> with n above 0 and one of the names "
            f"{', '.join(FailPoint)}. Correct fail_points in the instance's settings."
        )
    return point, at


class FailPoints:
    """Fail points that are armed in this process.

    Args:
        armed: ``name`` or ``name@n``: die at the n-th time (default the first) that `hit` sees the name.
        marker_dir: where it is remembered that one fired.

    Raises:
        ConfigurationError: an entry names no fail point.
    """

    def __init__(self, armed: Sequence[str] = (), marker_dir: Path | None = None) -> None:
        self._left = dict(map(parse_fail_point, armed))
        self._marker_dir = marker_dir

    def hit(self, point: FailPoint) -> None:
        """Die with SIGKILL if `point` is armed and its time has come; else nothing."""
        if not self._left or point not in self._left:
            return
        self._left[point] -= 1
        if self._left[point] > 0:
            return
        del self._left[point]
        if self._marker_dir is not None:
            marker = self._marker_dir / f"failpoint-{point}"
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                return
        os.kill(os.getpid(), signal.SIGKILL)
