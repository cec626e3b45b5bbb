"""What a person sees: a line for each step, lines that move, a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Final, TextIO

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

_PLAIN_EVERY_S: Final = 10.0
_INDENT: Final = " " * 9


class Screen:
    """Lines on a stream. On a terminal the last lines move; elsewhere they are printed now and then.

    No line is cut: a terminal wraps what is wider than itself, a file keeps it whole.

    Args:
        stream: where the lines go; None is standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stdout
        self._console = Console(file=stream, highlight=False, markup=False)
        self._moves = stream.isatty() and not self._console.is_dumb_terminal
        self._live: Live | None = None
        self._began = time.monotonic()
        self._printed_at = 0.0

    def say(self, text: str) -> None:
        """Print a step that was reached; it stays."""
        self._print(f"{self._elapsed()}{text}")

    def show(self, *lines: str) -> None:
        """Show the present state; the next one takes its place."""
        text = f"\n{_INDENT}".join([self._elapsed() + lines[0], *lines[1:]])
        if self._moves:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(Text(text), refresh=True)
        elif (now := time.monotonic()) - self._printed_at >= _PLAIN_EVERY_S:
            self._printed_at = now
            self._print(text)

    def clear(self) -> None:
        """Remove the lines that move."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def result(self, title: str, right: bool, rows: Iterable[tuple[str, str]], remarks: Iterable[str] = ()) -> None:
        """Print a title, two columns under it, names to the left and figures to the right, and remarks.

        Args:
            title: what came out, in one line.
            right: whether that is good news, for its colour.
            rows: name and figure.
            remarks: a line each.
        """
        self.clear()
        table = Table(box=box.HORIZONTALS, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        for row in rows:
            table.add_row(*row)
        self._print("")
        self._print(title, style="bold green" if right else "bold red")
        self._console.print(table)
        for remark in remarks:
            self._print(remark)

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, soft_wrap=not self._moves)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:5.0f} s  "


def bar(done: int, total: int, width: int = 24) -> str:
    """Return a bar that is full when `done` is `total`."""
    share = min(1.0, done / total) if total else 1.0
    full = int(share * width)
    return f"[{'#' * full}{'.' * (width - full)}] {share:4.0%}"
