"""What conditions say, in one line for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.observation import Observation
from airflow_provider.control.progress import progress_line
from airflow_provider.control.status import InstanceStatus, TaskStatus

__all__ = ["active_line", "copy_line", "either", "end_of", "handle", "said", "task_list"]


def active_line(assignment: Assignment, number: int, task: TaskStatus | None) -> str:
    """How a task stands with its active one."""
    owner = assignment.tasks[number].active
    if owner is None:
        return f"task {number} has no active instance"
    return f"task {number} is {task.state.value} on {owner}" if task else f"task {number} was not taken by {owner} yet"


def copy_line(task: TaskStatus | None) -> str:
    """How a copy stands."""
    if task is None:
        return "not heard of"
    lag = "lag unknown" if task.lag_records is None else f"lag {task.lag_records}"
    lag += "" if task.lag_s is None else f" ({task.lag_s:.1f} s)"
    certified = "" if task.certified_position is None else f", certified at {task.certified_position}"
    trouble = "" if task.error is None else f", {task.error_kind}: {task.error}"
    progress = progress_line(task)
    return f"{task.state.value}, {lag}{'' if progress is None else f', {progress}'}{certified}{trouble}"


def said(status: InstanceStatus) -> str:
    """What an instance says."""
    return f"{status.instance} is {status.state.value}, generation {status.generation}"


def end_of(status: InstanceStatus, seen: Observation) -> str:
    """How an instance ended, or how long it has been silent."""
    if status.state.alive:
        silent = seen.silent_for_s.get(status.instance, 0.0)
        return f"{status.instance} is {status.state.value} and was not heard of for {silent:.1f} s"
    how = "" if status.error is None else f": {status.error}"
    log = f" (log: {status.log_file} on {status.host})" if status.log_file else ""
    return f"{status.instance} is {status.state.value}{how}{log}"


def handle(status: InstanceStatus) -> dict[str, Any]:
    """What finds an instance again, as plain values."""
    return {
        "application_id": status.application_id,
        "instance": status.instance,
        "incarnation": status.incarnation,
        "pid": status.pid,
        "host": status.host,
        "log_file": status.log_file,
    }


def either(words: Iterable[str]) -> str:
    """Alternatives."""
    return " or ".join(words)


def task_list(numbers: Iterable[int]) -> str:
    """Task numbers."""
    return f"task(s) {', '.join(map(str, numbers))}"
