"""What a person sees: one line a step, a line that moves, a table at the end."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import Final, TextIO

__all__ = ["Screen", "bar", "table"]

_PLAIN_EVERY_S: Final = 10.0


class Screen:
    """Lines on a stream. On a terminal the last line moves; elsewhere it is printed now and then.

    Args:
        stream: where to.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._moves = self._stream.isatty()
        self._began = time.monotonic()
        self._moving = ""
        self._printed_at = 0.0

    def say(self, text: str) -> None:
        """A step that was reached; it stays."""
        self._clear()
        self._write(f"{self._elapsed()}  {text}\n{self._moving if self._moves else ''}")

    def show(self, text: str) -> None:
        """What is so now; the next one takes its place."""
        now = time.monotonic()
        if self._moves:
            self._clear()
            width = shutil.get_terminal_size().columns - 1
            self._moving = f"{self._elapsed()}  {text}"[:width]
            self._write(self._moving)
        elif now - self._printed_at >= _PLAIN_EVERY_S:
            self._printed_at = now
            self._write(f"{self._elapsed()}  {text}\n")

    def settle(self) -> None:
        """Take the moving line away."""
        self._clear()
        self._moving = ""

    def print(self, lines: Sequence[str]) -> None:
        """Lines as they are."""
        self.settle()
        self._write("".join(f"{line}\n" for line in lines))

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:5.0f} s"

    def _clear(self) -> None:
        if self._moves and self._moving:
            self._stream.write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def bar(done: int, total: int, width: int = 24) -> str:
    """A bar that is full when `done` is `total`."""
    share = min(1.0, done / total) if total else 1.0
    full = int(share * width)
    return f"[{'#' * full}{'.' * (width - full)}] {share:4.0%}"


def table(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns under a title: names to the left, figures to the right."""
    left = max(len(name) for name, _ in rows)
    right = max(len(value) for _, value in rows)
    rule = "-" * (left + right + 4)
    return [title, rule, *(f"  {name:<{left}}  {value:>{right}}" for name, value in rows), rule]
