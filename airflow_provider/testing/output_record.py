"""A record that a tested job wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OutputRecord:
    """A record of the sink topic.

    Args:
        key: as text.
        value: decoded from JSON.
    """

    key: str
    value: Any
