"""What conditions say, in one line for people."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.progress import progress_line
from airflow_provider.control.records.status import InstanceStatus, TaskStatus
from airflow_provider.control.waiting.observation import Observation


def active_line(assignment: Assignment, task_id: TaskId, task: TaskStatus | None) -> str:
    """How a task stands with its active one."""
    owner = assignment.tasks[task_id].active
    if owner is None:
        return f"task {task_id} has no active instance"
    if task is None:
        return f"task {task_id} has not begun on {owner} yet"
    failure = "" if task.error is None else f", {task.error_kind}: {task.error}"
    return f"task {task_id} is {task.state.value} on {owner}{failure}"


def copy_line(task: TaskStatus | None) -> str:
    """How a copy stands."""
    if task is None:
        return "no heartbeat"
    lag = "lag unknown" if task.lag_records is None else f"lag {task.lag_records}"
    lag += "" if task.lag_s is None else f" ({task.lag_s:.1f} s)"
    certified = "" if task.certificate.position is None else f", certified at {task.certificate.position}"
    failure = "" if task.error is None else f", {task.error_kind}: {task.error}"
    progress = progress_line(task)
    return f"{task.state.value}, {lag}{'' if progress is None else f', {progress}'}{certified}{failure}"


def instance_line(status: InstanceStatus) -> str:
    """How an instance stands."""
    return f"{status.instance} is {status.state.value}, generation {status.generation}"


def end_of(status: InstanceStatus, seen: Observation) -> str:
    """How an instance ended, or how long it has been silent."""
    if status.state.alive:
        silent = seen.silent_for_s.get(status.instance, 0.0)
        return f"{status.instance} is {status.state.value} and has sent no heartbeat for {silent:.1f} s"
    how = "" if status.error is None else f": {status.error}"
    log = f" (log: {status.process.log_file} on {status.process.host})" if status.process.log_file else ""
    return f"{status.instance} is {status.state.value}{how}{log}"


def either(words: Iterable[str]) -> str:
    """Alternatives."""
    return " or ".join(words)


def task_list(task_ids: Iterable[TaskId]) -> str:
    """Tasks."""
    return f"task(s) {', '.join(map(str, task_ids))}"
