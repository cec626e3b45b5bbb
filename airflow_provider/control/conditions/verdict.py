"""What a condition is, and its answer to one observation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from airflow_provider.control.observation import Observation

__all__ = ["Condition", "Outcome", "Verdict"]


class Outcome(Enum):
    """What became of waiting."""

    WAITING = "waiting"
    MET = "met"
    FAILED = "failed"
    """It can not be met any more."""


@dataclass(frozen=True)
class Verdict:
    """A condition's answer to one observation.

    Args:
        outcome: see `Outcome`.
        seen: what is the case now, in one line for people.
        result: plain values for whoever waited, when it is met.
    """

    outcome: Outcome
    seen: str
    result: dict[str, Any] = field(default_factory=dict)


class Condition(Protocol):
    """Something to wait for. ``str()`` of it says what, in one line."""

    def verdict(self, seen: Observation) -> Verdict:
        """Whether it is met by what was seen."""
        ...
