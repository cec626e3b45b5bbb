"""Waiting for what several instances were asked for."""

from __future__ import annotations

from airflow_provider.control.waiting.certificate import StandbysCompared
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.observation import Observation
from airflow_provider.control.waiting.snapshot import SnapshotsTaken

__all__ = ["AllOf"]


class AllOf(Condition, frozen=True):
    """All of some conditions are met. The result has ``results``, that of each in their order.

    Args:
        conditions: of one instance each.
    """

    conditions: tuple[SnapshotsTaken | StandbysCompared, ...]

    def __str__(self) -> str:
        """What is waited for."""
        return "; ".join(map(str, self.conditions))

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails as soon as one does."""
        found = [condition.evaluate(seen) for condition in self.conditions]
        for outcome in (Outcome.FAILED, Outcome.WAITING):
            if lines := [one.seen for one in found if one.outcome is outcome]:
                return Evaluation(outcome, "; ".join(lines))
        return Evaluation(Outcome.MET, "all are done", {"results": [one.result for one in found]})
