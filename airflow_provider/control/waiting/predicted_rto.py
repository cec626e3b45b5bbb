"""What can be waited for of predictions."""

from __future__ import annotations

from airflow_provider.control.outlook.predicted_rto import predict_by
from airflow_provider.control.outlook.rto_basis import RtoBasis
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.observation import Observation

__all__ = ["PredictedRtoWithin"]


class PredictedRtoWithin(Condition, frozen=True, kw_only=True):
    """A failure of any task's active instance would cost no more than so many seconds now.

    Args:
        max_rto_s: the bound.
        basis: by which it is predicted.
    """

    max_rto_s: float
    basis: RtoBasis

    def __str__(self) -> str:
        """What is waited for."""
        return f"every task to have a predicted RTO of {self.max_rto_s:g} s or less"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Waits for ever: standbys may come, and lags may shrink."""
        assignment = seen.view.assignment
        if assignment is None:
            return Evaluation(Outcome.WAITING, "nothing is assigned yet")
        living = [name for name in sorted(seen.view.statuses) if seen.living(name) is not None]
        predicted = predict_by(seen.view, self.basis, living)
        waiting = [f"task {task_id} has no active instance" for task_id in assignment.tasks if task_id not in predicted]
        totals = {task_id: one.total_ms for task_id, one in predicted.items()}
        waiting += [
            str(predicted[task_id])
            for task_id, total_ms in totals.items()
            if total_ms is None or total_ms > 1000 * self.max_rto_s
        ]
        if waiting:
            return Evaluation(Outcome.WAITING, "; ".join(waiting))
        result = {"predicted_rto_ms": {str(task_id): total_ms for task_id, total_ms in totals.items()}}
        return Evaluation(Outcome.MET, f"all are within {self.max_rto_s:g} s", result)
