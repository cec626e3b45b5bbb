"""The tasks of an application: which there are, and how people name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError


def tasks_of(stages: Mapping[int, int]) -> tuple[TaskId, ...]:
    """The tasks of an application, sorted: one for each partition of each stage.

    Args:
        stages: by stage, its number of partitions.
    """
    return tuple(TaskId(stage, partition) for stage in sorted(stages) for partition in range(stages[stage]))


def parse_task(task: TaskId | str) -> TaskId:
    """A task, also from a rendered template.

    Raises:
        ConfigurationError: it is not written ``<stage>_<partition>``.
    """
    if isinstance(task, TaskId):
        return task
    if not isinstance(task, str):
        raise ConfigurationError(f"Found the task {task!r}, expected a text <stage>_<partition>, such as '0_3'.")
    return TaskId.parse(task.strip("'\" "))


def parse_tasks(tasks: TaskId | str | Sequence[TaskId | str]) -> tuple[TaskId, ...]:
    """One task or several, also from a rendered template such as ``"0_0, 0_2"``.

    Raises:
        ConfigurationError: one is not written ``<stage>_<partition>``.
    """
    if isinstance(tasks, str):
        return tuple(parse_task(task) for task in tasks.strip("[]() ").split(",") if task.strip())
    if isinstance(tasks, Sequence):
        return tuple(map(parse_task, tasks))
    return (parse_task(tasks),)
