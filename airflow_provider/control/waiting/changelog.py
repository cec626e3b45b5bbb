"""What can be waited for of changelogs."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Needs, Outcome
from airflow_provider.control.waiting.messages import task_list
from airflow_provider.control.waiting.observation import Observation
from airflow_provider.control.waiting.task import chosen_tasks, refuse_unknown

__all__ = ["ChangelogGrowthWithin"]


class ChangelogGrowthWithin(Condition, frozen=True, kw_only=True):
    """The changelogs of tasks grow by no more than so many records a day, before compaction.

    Args:
        max_records_per_day: the bound, for each task.
        window_s: by the figures of so many seconds back.
        tasks: which; None for all.
    """

    max_records_per_day: int
    window_s: float = 86_400.0
    tasks: tuple[TaskId, ...] | None = None

    def __str__(self) -> str:
        """What is waited for."""
        which = "every task" if self.tasks is None else task_list(self.tasks)
        return f"the changelog of {which} to grow by {self.max_records_per_day:,} records a day or fewer"

    def needs(self) -> Needs:
        """The growth over the window."""
        return Needs(growth_s=self.window_s)

    def evaluate(self, seen: Observation) -> Evaluation:
        """Waits while there are not enough records to say how fast one grows."""
        assignment = seen.view.assignment
        if assignment is None:
            return Evaluation(Outcome.WAITING, "nothing is assigned yet")
        if (refusal := refuse_unknown(assignment, self.tasks)) is not None:
            return refusal
        found, waiting = {}, []
        for task_id in chosen_tasks(assignment, self.tasks):
            growth = seen.growths.get(task_id)
            if growth is None or growth.records_per_day is None:
                why = "there is no record" if growth is None else growth.why
                waiting.append(f"task {task_id}: not enough records: {why}")
                continue
            found[str(task_id)] = round(growth.records_per_day)
            if growth.records_per_day > self.max_records_per_day:
                waiting.append(f"that of task {task_id} grows by {growth.records_per_day:,.0f} records a day")
        if waiting:
            return Evaluation(Outcome.WAITING, "; ".join(waiting))
        return Evaluation(Outcome.MET, "all grow as slowly", {"records_per_day": found})
