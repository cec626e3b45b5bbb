"""What a condition is, and its answer to one observation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from airflow_provider.control.waiting.observation import Observation

__all__ = ["Condition", "Evaluation", "Needs", "Outcome"]


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a condition looks at besides the control topics.

    Args:
        history: whether it looks at the application's history.
        growth_s: for how many seconds back it looks at the growth of changelogs; None for not at all.
    """

    history: bool = False
    growth_s: float | None = None


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

    def needs(self) -> Needs:
        """What an observation has to hold besides the control topics."""
        return Needs()

    def evaluate(self, seen: Observation) -> Evaluation:
        """Whether it is met by what was seen."""
        raise NotImplementedError
