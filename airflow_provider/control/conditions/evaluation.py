"""What a condition is, and its answer to one observation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from airflow_provider.control.observation import Observation

__all__ = ["Condition", "Evaluation", "Outcome"]


class Outcome(Enum):
    """What became of waiting."""

    WAITING = "waiting"
    MET = "met"
    FAILED = "failed"
    """It cannot be met any more."""


@dataclass(frozen=True)
class Evaluation:
    """A condition's answer to one observation.

    Args:
        outcome: see `Outcome`.
        seen: what is the case now, in one line for people.
        result: plain values for the task that waited, when it is met.
    """

    outcome: Outcome
    seen: str
    result: dict[str, Any] = field(default_factory=dict)


class Condition(msgspec.Struct, frozen=True, tag=True, tag_field="kind"):
    """Something to wait for. ``str()`` of it says what, in one line; its plain form names its class as ``kind``."""

    def evaluate(self, seen: Observation) -> Evaluation:
        """Whether it is met by what was seen."""
        raise NotImplementedError
