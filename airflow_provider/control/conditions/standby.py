"""What can be waited for of standbys."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.control.conditions.task import active_task, numbers, refuse_unknown
from airflow_provider.control.conditions.verdict import Outcome, Verdict
from airflow_provider.control.conditions.words import active_line, copy_line, task_list
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import Role, TaskState, TaskStatus

__all__ = ["StandbysWarm"]


@dataclass(frozen=True)
class StandbysWarm:
    """Every task runs and has its standbys, warm and near the end of the changelog.

    Args:
        num_standby_replicas: how many warm standbys a task must have.
        tasks: their numbers; None for all.
        max_lag_records: a standby counts when its lag is at most this many records; None does not look at it.
        max_lag_s: the same in seconds.
        generation: the assignment that is waited for, or a newer one.
        certified: whether a standby counts only when its store was found to hold what its active's did.
    """

    num_standby_replicas: int = 1
    tasks: tuple[int, ...] | None = None
    max_lag_records: int | None = None
    max_lag_s: float | None = None
    generation: int = 1
    certified: bool = False

    def __str__(self) -> str:
        """What is waited for."""
        which = "every task" if self.tasks is None else f"{task_list(self.tasks)}"
        bounds = [f"{self.max_lag_records} records"] if self.max_lag_records is not None else []
        bounds += [f"{self.max_lag_s:g} s"] if self.max_lag_s is not None else []
        within = f" within {' and '.join(bounds)}" if bounds else ""
        kind = "warm, certified" if self.certified else "warm"
        return f"{which} to run with {self.num_standby_replicas} {kind} standby(s){within}"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when a task failed: its standbys cannot get warmer than its last commit."""
        assignment = seen.view.assignment
        if assignment is None or assignment.generation < self.generation:
            return Verdict(Outcome.WAITING, "the generation was not published yet")
        if (refusal := refuse_unknown(assignment, self.tasks)) is not None:
            return refusal
        lags, waiting = {}, []
        for number in numbers(assignment, self.tasks):
            active = active_task(seen, assignment, number)
            if active is not None and active.state is TaskState.FAILED:
                where = assignment.tasks[number].active
                return Verdict(Outcome.FAILED, f"task {number} failed on {where}: {active.error}")
            if active is None or active.state is not TaskState.RUNNING:
                waiting.append(active_line(assignment, number, active))
                continue
            copies = {name: copy(seen, name, number) for name in assignment.tasks[number].standbys}
            near = {n: c.lag_records for n, c in copies.items() if c is not None and self._near(c)}
            lags[str(number)] = near
            if len(near) < self.num_standby_replicas:
                told = ", ".join(f"{n} {copy_line(c)}" for n, c in copies.items()) or "none assigned"
                waiting.append(f"task {number} has {len(near)} of {self.num_standby_replicas} standbys ({told})")
        if waiting:
            return Verdict(Outcome.WAITING, "; ".join(waiting))
        result = {"generation": assignment.generation, "lag_records": lags}
        return Verdict(Outcome.MET, f"all are warm in generation {assignment.generation}", result)

    def _near(self, task: TaskStatus) -> bool:
        if not task.warm or task.lag_records is None:
            return False
        if self.certified and task.certified_position is None:
            return False
        if self.max_lag_records is not None and task.lag_records > self.max_lag_records:
            return False
        return self.max_lag_s is None or (task.lag_s is not None and task.lag_s <= self.max_lag_s)


def copy(seen: Observation, instance: str, number: int) -> TaskStatus | None:
    status = seen.living(instance)
    task = status.task(number) if status else None
    return task if task is not None and task.role is Role.STANDBY else None
