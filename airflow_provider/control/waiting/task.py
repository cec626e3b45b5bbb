"""What can be waited for of a task: a state, and the replay of its store."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.control.topics.liveness import Liveness
from airflow_provider.control.waiting.evaluation import (
    Condition,
    Evaluation,
    Observation,
    Outcome,
    active_line,
    copy_line,
    end_of,
    met_unless,
    task_list,
)
from airflow_provider.control.waiting.instance import CommandDone


class TaskInState(Condition, frozen=True):
    """A task is in one of some states, on the instance that is assigned or on a named one.

    Args:
        instance: where; None for the assigned active.
    """

    task: TaskId
    states: tuple[TaskState, ...]
    instance: str | None = None

    def __str__(self) -> str:
        where = f" on {self.instance}" if self.instance else ""
        return f"task {self.task}{where} to be {' or '.join(s.value for s in self.states)}"

    def evaluate(self, seen: Observation) -> Evaluation:
        """A task on a silent instance is in no state."""
        assignment = seen.view.assignment
        where = self.instance
        if where is None:
            if assignment is None or self.task not in assignment.tasks:
                return Evaluation(Outcome.WAITING, "it is not assigned yet")
            where = assignment.tasks[self.task].active
            if where is None:
                return Evaluation(Outcome.WAITING, "it has no active instance")
        status = seen.living(where)
        task = status.task(self.task) if status else None
        if task is None:
            return Evaluation(Outcome.WAITING, f"{where} is not alive" if status is None else f"{where} has no copy")
        line = f"{task.state.value} on {where}"
        if task.state in self.states:
            result = {"task": str(self.task), "instance": where, "state": task.state.value}
            return Evaluation(Outcome.MET, line, result)
        return Evaluation(Outcome.WAITING, line if task.error is None else f"{line}: {task.error}")


class TasksRunning(Condition, frozen=True):
    """Tasks are processed by the instance that is assigned, without an error.

    Args:
        on: the instance that has to be their active one; None for any.
        generation: the assignment that is waited for, or a newer one.
    """

    tasks: tuple[TaskId, ...] | None = None
    on: str | None = None
    generation: int = 1

    def __str__(self) -> str:
        which = "every task" if self.tasks is None else f"{task_list(self.tasks)}"
        return f"{which} to run{f' on {self.on}' if self.on else ''} (generation {self.generation} or newer)"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when a task failed, or a newer generation gave it to another instance than `on`."""
        assignment = seen.view.assignment
        if assignment is None or assignment.generation < self.generation:
            return Evaluation(Outcome.WAITING, "this generation was not published yet")
        if (refusal := refuse_unknown(assignment, self.tasks)) is not None:
            return refusal
        waiting, owners = [], {}
        for task_id in chosen_tasks(assignment, self.tasks):
            owner = assignment.tasks[task_id].active
            if self.on is not None and owner != self.on:
                moved = f"generation {assignment.generation} gave task {task_id} to {owner or 'no instance'}"
                return Evaluation(Outcome.FAILED, f"{moved}: {assignment.reason}")
            task = active_task(seen, assignment, task_id)
            if task is not None and task.state is TaskState.FAILED:
                return Evaluation(Outcome.FAILED, f"task {task_id} failed on {owner}: {task.error}")
            if task is None or task.state is not TaskState.RUNNING or task.error is not None:
                waiting.append(active_line(assignment, task_id, task))
            else:
                owners[str(task_id)] = owner
        result = {"generation": assignment.generation, "active": owners}
        return met_unless(waiting, f"generation {assignment.generation} is in effect", result)


def chosen_tasks(assignment: Assignment, tasks: tuple[TaskId, ...] | None) -> Iterable[TaskId]:
    """The tasks that are meant."""
    return assignment.tasks if tasks is None else tasks


def refuse_unknown(assignment: Assignment, tasks: tuple[TaskId, ...] | None) -> Evaluation | None:
    """A failure when a task is named that the application does not have; None otherwise."""
    absent = [task_id for task_id in tasks or () if task_id not in assignment.tasks]
    if not absent:
        return None
    known = ", ".join(map(str, assignment.tasks)) or "none"
    return Evaluation(Outcome.FAILED, f"{task_list(absent)} of {assignment.application_id} do not exist, only {known}")


def active_task(seen: Observation, assignment: Assignment, task_id: TaskId) -> TaskStatus | None:
    """The assigned active's status of a task, when it lives and reports on the present assignment."""
    given = assignment.tasks[task_id]
    status = seen.living(given.active) if given.active else None
    return status.active_task(task_id, given.active_since) if status else None


class TasksReplayed(Condition, frozen=True):
    """An instance took a replay on and its copies of the tasks are whole again.

    What it says of a task before the worker knows of the replay does not count: that may still have failed, or run.

    Args:
        command: the id of the command: a replay, or a drill's fault that takes their stores.
    """

    instance: str
    command: str
    tasks: tuple[TaskId, ...]

    def __str__(self) -> str:
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
        figures = {"restored_records": restored, "restored_bytes": sizes, "restore_s": seconds}
        return met_unless(waiting, "all are whole", {"instance": self.instance, **figures})
