"""How long something took or is ago, for a table."""

from __future__ import annotations

from typing import Final

__all__ = ["ago", "seconds"]

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def ago(ms: int) -> str:
    """One number with the greatest unit that gives two of it or more: ``90 s``, ``47 min``, ``3 d``.

    Args:
        ms: milliseconds; clocks that differ may make them negative, which counts as none.
    """
    unit, size = next((one for one in _UNITS if ms >= 2 * one[1]), ("s", 1_000))
    return f"{max(0, ms) // size} {unit}"


def seconds(ms: int | None) -> str:
    """With one decimal; ``-`` for None.

    Args:
        ms: milliseconds.
    """
    return "-" if ms is None else f"{ms / 1000:.1f} s"
