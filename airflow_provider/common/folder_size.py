"""How much a folder holds."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["folder_bytes"]


def folder_bytes(folder: Path) -> int:
    """Size of all files in a folder and below it, in bytes; files that vanish during the count add nothing.

    0 for a folder that is not there.
    """
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total
