"""What becomes of one task, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_provider.common.task_id import TaskId


class Action(Enum):
    """What becomes of a task."""

    PROMOTE = "promote"
    """A standby becomes the active one. Costs its lag."""
    REPLAY = "replay"
    """An instance without a warm copy becomes the active one and restores it from the changelog."""
    WAIT = "wait"
    """There is no living instance: a new one has to be deployed."""
    KEEP = "keep"
    """Its instance failed and is being started again: its store is there, and no other copy is warm."""
    RENEW = "renew"
    """It stays where it is, in a newer generation."""
    HOLD = "hold"
    """The task would fail anywhere, or did: a person has to correct the record, function, setting or host."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What becomes of one task, and why.

    Args:
        action: see `Action`.
        to: the instance that is to be active; None for `Action.WAIT` and `Action.HOLD`.
        evidence: the candidates and what was known of each, in one line.
        no_candidate: of `Action.HOLD`, whether another instance could have taken it, and there was none.
        overloaded: of `Action.HOLD`, whether failovers followed each other without helping (`failover_pace`).
    """

    task: TaskId
    action: Action
    to: str | None
    evidence: str
    no_candidate: bool = False
    overloaded: bool = False

    def __str__(self) -> str:
        """One line for a log or a report."""
        where = f" on {self.to}" if self.to else ""
        return f"task {self.task}: {self.action.value}{where} ({self.evidence})"
