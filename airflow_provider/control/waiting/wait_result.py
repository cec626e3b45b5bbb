"""How a wait for a condition ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_provider.control.waiting.evaluation import Outcome
from airflow_provider.errors import ConfigurationError, DeadlineError, InstanceError, TopicMissingError

__all__ = ["WaitResult"]


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
