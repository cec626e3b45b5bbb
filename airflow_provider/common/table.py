"""A table for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two blanks between them; each row has as many cells as the header."""
    return "\n".join(table_lines(header, rows))


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The same, as the line of the header and one for each row."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in (header, *rows)]
