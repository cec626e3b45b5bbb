"""What can be waited for of drills."""

from __future__ import annotations

from airflow_provider.control.history.drill_age import drill_overdue, passed_drill
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Needs, Outcome
from airflow_provider.control.waiting.observation import Observation

__all__ = ["DrillPassedWithin"]


class DrillPassedWithin(Condition, frozen=True, kw_only=True):
    """A drill was passed lately.

    Args:
        max_age_s: how long ago at the most, in seconds.
        cause: the kind of the drill; None for any.
    """

    max_age_s: float
    cause: str | None = None

    def __str__(self) -> str:
        """What is waited for."""
        which = "a drill" if self.cause is None else f"a drill of kind {self.cause}"
        return f"{which} to have been passed within the last {self.max_age_s:g} s"

    def needs(self) -> Needs:
        """The history."""
        return Needs(history=True)

    def evaluate(self, seen: Observation) -> Evaluation:
        """Waits for ever: one may be passed."""
        drills = [record for record in seen.history if self.cause in (None, record.cause)]
        overdue, passed = drill_overdue(drills, self.max_age_s, seen.now_ms), passed_drill(drills)
        if overdue is not None or passed is None:
            return Evaluation(Outcome.WAITING, overdue or "no drill was passed")
        result = {"id": passed.id, "cause": passed.cause, "passed_at_ms": passed.ended_at_ms or passed.at_ms}
        return Evaluation(Outcome.MET, f"{passed.id} was passed", result)
