"""What can be waited for of what a source holds unread."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.messages import active_line, task_list
from airflow_provider.control.waiting.observation import Observation
from airflow_provider.control.waiting.task import active_task, chosen_tasks, refuse_unknown

__all__ = ["SourceLagWithin"]


class SourceLagWithin(Condition, frozen=True, kw_only=True):
    """Tasks run, and the source of each holds no more than so many unread records.

    Args:
        max_lag_records: the bound.
        tasks: which; None for all.
    """

    max_lag_records: int
    tasks: tuple[TaskId, ...] | None = None

    def __str__(self) -> str:
        """What is waited for."""
        which = "every task" if self.tasks is None else task_list(self.tasks)
        return f"{which} to have {self.max_lag_records:,} unread records of its source or fewer"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when a task failed: it reads no more."""
        assignment = seen.view.assignment
        if assignment is None:
            return Evaluation(Outcome.WAITING, "nothing is assigned yet")
        if (refusal := refuse_unknown(assignment, self.tasks)) is not None:
            return refusal
        lags, waiting = {}, []
        for task_id in chosen_tasks(assignment, self.tasks):
            task, where = active_task(seen, assignment, task_id), assignment.tasks[task_id].active
            if task is not None and task.state is TaskState.FAILED:
                return Evaluation(Outcome.FAILED, f"task {task_id} failed on {where}: {task.error}")
            if task is None or task.state is not TaskState.RUNNING or task.error is not None:
                waiting.append(active_line(assignment, task_id, task))
            elif (lag := task.source.lag_records) is None:
                waiting.append(f"the source lag of task {task_id} is not known yet")
            else:
                lags[str(task_id)] = lag
                if lag > self.max_lag_records:
                    waiting.append(f"task {task_id} on {where} has {lag:,} unread records of its source")
        if waiting:
            return Evaluation(Outcome.WAITING, "; ".join(waiting))
        return Evaluation(Outcome.MET, f"all have {self.max_lag_records:,} or fewer", {"lag_records": lags})
