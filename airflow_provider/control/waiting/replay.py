"""What can be waited for of a replay."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState
from airflow_provider.control.topics.liveness import Liveness
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.instance import CommandDone
from airflow_provider.control.waiting.messages import copy_line, end_of, task_list
from airflow_provider.control.waiting.observation import Observation

__all__ = ["TasksReplayed"]


class TasksReplayed(Condition, frozen=True):
    """An instance took a replay on and its copies of the tasks are whole again.

    What it says of a task before the worker knows of the replay does not count: that may still have failed, or run.

    Args:
        instance: its name.
        command: the id of the command: a replay, or a drill's fault that takes their stores.
        tasks: the tasks.
    """

    instance: str
    command: str
    tasks: tuple[TaskId, ...]

    def __str__(self) -> str:
        """What is waited for."""
        return f"instance {self.instance} to replay {task_list(self.tasks)}"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the instance ends or a task fails."""
        accepted = CommandDone(self.instance, self.command).evaluate(seen)
        if accepted.outcome is not Outcome.MET:
            return accepted
        status = seen.living(self.instance)
        if status is None:
            last = seen.view.statuses[self.instance]
            gone = seen.liveness(last) is not Liveness.ALIVE
            return Evaluation(Outcome.FAILED if gone else Outcome.WAITING, end_of(last, seen))
        answered = set(status.last_commands[status.last_commands.index(self.command) :])  # a later replay is one too
        waiting: list[str] = []
        restored: dict[str, int] = {}
        sizes: dict[str, int] = {}
        seconds: dict[str, float] = {}
        for task_id in self.tasks:
            task = status.task(task_id)
            if task is not None and answered.isdisjoint((task.replay, task.fault)):
                waiting.append(f"task {task_id} has not begun to replay")
            elif task is not None and task.state is TaskState.FAILED:
                return Evaluation(Outcome.FAILED, f"task {task_id} failed: {task.error}")
            elif task is None or task.error is not None or not (task.warm or task.state is TaskState.RUNNING):
                waiting.append(f"task {task_id} {copy_line(task)}")
            else:
                restored[str(task_id)] = task.restore.records
                sizes[str(task_id)], seconds[str(task_id)] = task.restore.bytes, task.restore.took_s
        if waiting:
            return Evaluation(Outcome.WAITING, "; ".join(waiting))
        figures = {"restored_records": restored, "restored_bytes": sizes, "restore_s": seconds}
        return Evaluation(Outcome.MET, "all are whole", {"instance": self.instance, **figures})
