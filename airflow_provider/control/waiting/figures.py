"""What can be waited for of figures: unread records, growth of changelogs, room on disks, predicted recovery times."""

from __future__ import annotations

from airflow_provider.common.table import mib
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.predicted_rto import RtoBasis, predict_by
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.control.waiting.evaluation import (
    Condition,
    Evaluation,
    Needs,
    Observation,
    Outcome,
    active_line,
    met_unless,
    task_list,
)
from airflow_provider.control.waiting.task import active_task, chosen_tasks, refuse_unknown


class SourceLagWithin(Condition, frozen=True, kw_only=True):
    """Tasks run, and the source of each holds no more than so many unread records."""

    max_lag_records: int
    tasks: tuple[TaskId, ...] | None = None

    def __str__(self) -> str:
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
        return met_unless(waiting, f"all have {self.max_lag_records:,} or fewer", {"lag_records": lags})


class ChangelogGrowthWithin(Condition, frozen=True, kw_only=True):
    """The changelogs of tasks grow by no more than so many records a day, before compaction.

    Args:
        window_s: by the figures of so many seconds back.
    """

    max_records_per_day: int
    window_s: float = 86_400.0
    tasks: tuple[TaskId, ...] | None = None

    def __str__(self) -> str:
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
        return met_unless(waiting, "all grow as slowly", {"records_per_day": found})


class DiskSpaceFree(Condition, frozen=True, kw_only=True):
    """The disks of instances have room, where they keep their stores.

    Args:
        min_free_bytes: how much each must have left.
    """

    min_free_bytes: int
    instances: tuple[str, ...] | None = None

    def __str__(self) -> str:
        which = "every instance" if self.instances is None else ", ".join(self.instances)
        return f"{which} to have {mib(self.min_free_bytes, 0)} of disk left"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Waits for ever: room can be made. What an instance said before it ended or fell silent does not count."""
        assignment = seen.view.assignment
        if self.instances is None and assignment is None:
            return Evaluation(Outcome.WAITING, "nothing is assigned yet")
        names = self.instances if assignment is None or self.instances is not None else assignment.instances
        free, waiting = {}, []
        for name in names or ():
            status = seen.living(name)
            if status is None:
                waiting.append(f"{name} is not alive")
            elif status.disk.free_bytes is None:
                waiting.append(f"{name} has not measured its disk yet")
            else:
                free[name] = status.disk.free_bytes
                if free[name] < self.min_free_bytes:
                    where = f"at {status.disk.folder} on {status.stores_host}"
                    waiting.append(f"{name} has {mib(free[name], 0)} left {where}")
        return met_unless(waiting, "all have room", {"free_bytes": free})


class PredictedRtoWithin(Condition, frozen=True, kw_only=True):
    """A failure of any task's active instance would cost no more than so many seconds now."""

    max_rto_s: float
    basis: RtoBasis

    def __str__(self) -> str:
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
        result = {"predicted_rto_ms": {str(task_id): total_ms for task_id, total_ms in totals.items()}}
        return met_unless(waiting, f"all are within {self.max_rto_s:g} s", result)
