"""Figures as people read them; ``-`` is one that is not known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

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
    """A time of day as ISO 8601 writes it."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")


def utc_cell(epoch_ms: int) -> str:
    """A time of day in a column whose title names the zone."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
