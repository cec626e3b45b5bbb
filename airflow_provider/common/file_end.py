"""The end of a file that may be large, such as a log."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["file_end"]


def file_end(path: Path, max_bytes: int = 64 << 10) -> str:
    """The last of a file's text.

    Args:
        path: the file, in UTF-8; what is not is replaced.
        max_bytes: how much of it to read; the first line may be cut off.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - max_bytes))
        return file.read().decode("utf-8", "replace")
