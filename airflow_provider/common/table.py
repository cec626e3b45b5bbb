"""Tables and figures for a terminal or a log; ``-`` is a figure that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two blanks between them; each row has as many cells as the header."""
    return "\n".join(table_lines(header, rows))


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The same, as the line of the header and one for each row."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in (header, *rows)]


_MIB: Final = 1 << 20


def number(count: float | None) -> str:
    """A whole number, with commas between the thousands."""
    return "-" if count is None else f"{count:,.0f}"


def seconds(ms: int | None, decimals: int = 2) -> str:
    """A time that was measured."""
    return "-" if ms is None else f"{ms / 1000:.{decimals}f} s"


def mib(size: float | None, decimals: int = 1) -> str:
    """A number of bytes."""
    return "-" if size is None else f"{size / _MIB:,.{decimals}f} MiB"


def utc(epoch_ms: int) -> str:
    """A time of day as ISO 8601 writes it; the number where no calendar has it, as in what another program wrote."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"


def utc_cell(epoch_ms: int) -> str:
    """The same in a column whose title names the zone."""
    return utc(epoch_ms).replace("T", " ").removesuffix("+00:00")


_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def ago(ms: int) -> str:
    """One number with the greatest unit that gives two of it or more: ``90 s``, ``47 min``, ``3 d``.

    Args:
        ms: milliseconds; clocks that differ may make them negative, which counts as none.
    """
    unit, size = next((one for one in _UNITS if ms >= 2 * one[1]), ("s", 1_000))
    return f"{max(0, ms) // size} {unit}"
