"""What a person reads: numbered steps, and what each saw."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Report"]


class Report:
    """Prints, and keeps what was printed in a file.

    Args:
        file: where it is kept.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._began, self._steps = file, time.monotonic(), 0

    def step(self, title: str) -> None:
        """Begin the next step."""
        self._steps += 1
        self._print(f"[{time.monotonic() - self._began:6.0f} s] {self._steps}. {title}")

    def saw(self, *lines: str) -> None:
        """Say what was seen in it."""
        for line in lines:
            self._print(f"             {line}")

    def lines(self, lines: Iterable[str]) -> None:
        """Print as it is."""
        for line in lines:
            self._print(line)

    def _print(self, line: str) -> None:
        print(line, flush=True)
        with self._file.open("a", encoding="utf-8") as kept:
            kept.write(line + "\n")
