"""The aggregate functions."""

from __future__ import annotations

from enum import Enum

__all__ = ["Function"]


class Function(Enum):
    """What is kept of a column."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    FIRST = "first"
    LAST = "last"
