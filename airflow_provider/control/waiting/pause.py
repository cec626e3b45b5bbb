"""What can be waited for of a pause."""

from __future__ import annotations

from airflow_provider.control.topics.liveness import Liveness
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.messages import end_of
from airflow_provider.control.waiting.observation import Observation

__all__ = ["ProcessingPaused"]


class ProcessingPaused(Condition, frozen=True):
    """Instances report that they process nothing for now, or that they process again.

    Args:
        incarnations: by instance, the process that was asked.
        paused: which of the two.
    """

    incarnations: dict[str, int]
    paused: bool = True

    def __str__(self) -> str:
        """What is waited for."""
        return f"{', '.join(sorted(self.incarnations))} to {'pause' if self.paused else 'process again'}"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when one ended, is silent, or was replaced: a new process is not paused."""
        waiting = []
        for name, incarnation in sorted(self.incarnations.items()):
            status = seen.view.statuses.get(name)
            if status is None or status.incarnation < incarnation:
                waiting.append(f"{name} has sent no heartbeat yet")
            elif status.incarnation > incarnation and self.paused:
                return Evaluation(
                    Outcome.FAILED, f"{name} was replaced, and its new process is not paused: pause again"
                )
            elif seen.liveness(status) is not Liveness.ALIVE:
                return Evaluation(Outcome.FAILED, end_of(status, seen))
            elif status.paused != self.paused:
                waiting.append(f"{name} {'processes' if self.paused else 'is paused'}")
        if waiting:
            return Evaluation(Outcome.WAITING, "; ".join(waiting))
        result = {"instances": sorted(self.incarnations), "paused": self.paused}
        return Evaluation(Outcome.MET, "all of them report it", result)
