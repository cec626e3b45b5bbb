"""What can be waited for of a task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.conditions.verdict import Outcome, Verdict
from airflow_provider.control.conditions.words import active_line, either, task_list
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import Role, TaskState, TaskStatus

__all__ = ["TaskInState", "TasksRunning", "active_task", "numbers", "refuse_unknown"]


@dataclass(frozen=True)
class TaskInState:
    """A task is in one of some states, on the instance that is assigned or on a named one.

    Args:
        task: its number.
        states: the states that are waited for.
        instance: where; None for the assigned active.
    """

    task: int
    states: tuple[TaskState, ...]
    instance: str | None = None

    def __str__(self) -> str:
        """What is waited for."""
        where = f" on {self.instance}" if self.instance else ""
        return f"task {self.task}{where} to be {either(s.value for s in self.states)}"

    def verdict(self, seen: Observation) -> Verdict:
        """A task on a silent instance is in no state."""
        assignment = seen.view.assignment
        where = self.instance
        if where is None:
            if assignment is None or self.task >= len(assignment.tasks):
                return Verdict(Outcome.WAITING, "it is not assigned yet")
            where = assignment.tasks[self.task].active
            if where is None:
                return Verdict(Outcome.WAITING, "it has no active instance")
        status = seen.living(where)
        task = status.task(self.task) if status else None
        if task is None:
            return Verdict(Outcome.WAITING, f"{where} does not live" if status is None else f"{where} has no copy")
        line = f"{task.state.value} on {where}"
        if task.state in self.states:
            result = {"task": self.task, "instance": where, "state": task.state.value}
            return Verdict(Outcome.MET, line, result)
        return Verdict(Outcome.WAITING, line if task.error is None else f"{line}: {task.error}")


@dataclass(frozen=True)
class TasksRunning:
    """Tasks are processed by the instance that is assigned.

    Args:
        tasks: their numbers; None for all.
        on: the instance that has to be their active one; None for whichever is.
        generation: the assignment that is waited for, or a newer one.
    """

    tasks: tuple[int, ...] | None = None
    on: str | None = None
    generation: int = 1

    def __str__(self) -> str:
        """What is waited for."""
        which = "every task" if self.tasks is None else f"{task_list(self.tasks)}"
        return f"{which} to run{f' on {self.on}' if self.on else ''} (generation {self.generation} or newer)"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when a task failed, or a newer generation gave it to another instance than `on`."""
        assignment = seen.view.assignment
        if assignment is None or assignment.generation < self.generation:
            return Verdict(Outcome.WAITING, "the generation was not published yet")
        if (refusal := refuse_unknown(assignment, self.tasks)) is not None:
            return refusal
        waiting, owners = [], {}
        for number in numbers(assignment, self.tasks):
            owner = assignment.tasks[number].active
            if self.on is not None and owner != self.on:
                moved = f"generation {assignment.generation} gave task {number} to {owner or 'nobody'}"
                return Verdict(Outcome.FAILED, f"{moved}: {assignment.reason}")
            task = active_task(seen, assignment, number)
            if task is not None and task.state is TaskState.FAILED:
                return Verdict(Outcome.FAILED, f"task {number} failed on {owner}: {task.error}")
            if task is None or task.state is not TaskState.RUNNING:
                waiting.append(active_line(assignment, number, task))
            else:
                owners[str(number)] = owner
        if waiting:
            return Verdict(Outcome.WAITING, "; ".join(waiting))
        result = {"generation": assignment.generation, "active": owners}
        return Verdict(Outcome.MET, f"generation {assignment.generation} is obeyed", result)


def numbers(assignment: Assignment, tasks: tuple[int, ...] | None) -> Iterable[int]:
    """The numbers of the tasks that are meant."""
    return range(len(assignment.tasks)) if tasks is None else tasks


def refuse_unknown(assignment: Assignment, tasks: tuple[int, ...] | None) -> Verdict | None:
    """A failure when a task is named that the application does not have; None otherwise."""
    last = len(assignment.tasks) - 1
    absent = [number for number in tasks or () if not 0 <= number <= last]
    if not absent:
        return None
    return Verdict(Outcome.FAILED, f"{task_list(absent)} of {assignment.application_id} do not exist, only 0 to {last}")


def active_task(seen: Observation, assignment: Assignment, number: int) -> TaskStatus | None:
    """The assigned active's word on a task, when it lives and speaks of the present assignment."""
    given = assignment.tasks[number]
    status = seen.living(given.active) if given.active else None
    task = status.task(number) if status else None
    current = task is not None and task.role is Role.ACTIVE and task.generation >= given.active_since
    return task if current else None
