"""What can be waited for of a replay."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.control.conditions.instance import CommandObeyed
from airflow_provider.control.conditions.verdict import Outcome, Verdict
from airflow_provider.control.conditions.words import copy_line, end_of, task_list
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import TaskState

__all__ = ["TasksReplayed"]


@dataclass(frozen=True)
class TasksReplayed:
    """An instance took a replay on and its copies of the tasks are whole again.

    Args:
        instance: its name.
        command: the id of the command.
        tasks: the tasks' numbers.
    """

    instance: str
    command: str
    tasks: tuple[int, ...]

    def __str__(self) -> str:
        """What is waited for."""
        return f"instance {self.instance} to replay {task_list(self.tasks)}"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when the instance ends or a task fails."""
        accepted = CommandObeyed(self.instance, self.command).verdict(seen)
        if accepted.outcome is not Outcome.MET:
            return accepted
        status = seen.living(self.instance)
        if status is None:
            last = seen.view.statuses[self.instance]
            gone = not last.state.alive or seen.missed(last)
            return Verdict(Outcome.FAILED if gone else Outcome.WAITING, end_of(last, seen))
        waiting: list[str] = []
        restored: dict[str, int] = {}
        sizes: dict[str, int] = {}
        seconds: dict[str, float] = {}
        for number in self.tasks:
            task = status.task(number)
            if task is not None and task.state is TaskState.FAILED:
                return Verdict(Outcome.FAILED, f"task {number} failed: {task.error}")
            if task is None or not (task.warm or task.state is TaskState.RUNNING):
                waiting.append(f"task {number} {copy_line(task)}")
            else:
                restored[str(number)] = task.restored_records
                sizes[str(number)], seconds[str(number)] = task.restored_bytes, task.restore_s
        if waiting:
            return Verdict(Outcome.WAITING, "; ".join(waiting))
        figures = {"restored_records": restored, "restored_bytes": sizes, "restore_s": seconds}
        return Verdict(Outcome.MET, "all are whole", {"instance": self.instance, **figures})
