"""What a condition is, its answer to one observation, and how a wait for it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from airflow_provider.control.waiting.observation import Observation
from airflow_provider.errors import ConfigurationError, DeadlineError, InstanceError, TopicMissingError


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


@dataclass(frozen=True, kw_only=True)
class WaitResult:
    """What a trigger hands to the task that waited. Crosses from a triggerer to a worker as plain values.

    Args:
        outcome: `Outcome.WAITING` when the time was over first.
        waited_for: the condition, in one line.
        waited_s: how long, in seconds.
        seen: what was the case at last, in one line.
        result: plain values of the condition, when it was met.
        missing: which control topic the brokers did not know at last, as an error's text; None where they knew all.
        refused: what the connection is not good for, as an error's text; None where it is good.
    """

    outcome: Outcome
    waited_for: str
    waited_s: float
    seen: str
    result: dict[str, Any] = field(default_factory=dict)
    missing: str | None = None
    refused: str | None = None

    def value(self, limit: str = "timeout_s") -> dict[str, Any]:
        """The condition's result.

        Args:
            limit: what says how long the wait may last, over all tries.

        Raises:
            ConfigurationError: the connection cannot be used, or lacks a right.
            TopicMissingError: the application has no control topics.
            InstanceError: what was waited for cannot happen any more.
            DeadlineError: the time was over; says what was waited for and what was last seen.
        """
        if self.outcome is Outcome.FAILED and self.refused is not None:
            raise ConfigurationError(self.refused)
        if self.outcome is Outcome.FAILED and self.missing is not None:
            raise TopicMissingError(self.missing)
        match self.outcome:
            case Outcome.MET:
                return self.result
            case Outcome.FAILED:
                raise InstanceError(
                    f"Waited for {self.waited_for}, which cannot happen any more: {self.seen}. "
                    "Correct the cause, then clear the Airflow task."
                )
            case Outcome.WAITING:
                raise DeadlineError(
                    f"Waited {self.waited_s:g} s for {self.waited_for}, the last of what all tries may take together "
                    f"({limit}). Last seen: {self.seen}. Look at the instances' logs, or allow more with "
                    f"{limit.partition('=')[0]}."
                )
