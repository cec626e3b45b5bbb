"""A task of an application: its name, which there are, and how people write it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider.errors import ConfigurationError

_FORM: Final = re.compile(r"(\d{1,9})_(\d{1,9})")


class TaskId:
    """A task: partition `partition` of every source, store and changelog of stage `stage`.

    Written ``<stage>_<partition>`` as in Kafka Streams (``0_3``), in JSON too (`airflow_provider.common.json_codec`).
    Ordered by stage, then partition. Immutable, and usable as a key.

    Args:
        stage: the number of its stage.
        partition: of its sources, stores and changelogs.
    """

    __slots__ = ("_pair", "partition", "stage")

    def __init__(self, stage: int, partition: int) -> None:
        self.stage: Final = stage
        self.partition: Final = partition
        self._pair: Final = (stage, partition)

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read ``<stage>_<partition>``.

        Raises:
            ConfigurationError: the text is something else.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise ConfigurationError(f"Found the task {text!r}, expected <stage>_<partition>, such as '0_3'.")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.stage}_{self.partition}"

    def __repr__(self) -> str:
        return f"TaskId({self.stage}, {self.partition})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskId) and self._pair == other._pair

    def __lt__(self, other: TaskId) -> bool:
        return self._pair < other._pair

    def __hash__(self) -> int:
        return hash(self._pair)

    def __reduce__(self) -> tuple[type[TaskId], tuple[int, int]]:
        return TaskId, self._pair


def tasks_of(stages: Mapping[int, int]) -> tuple[TaskId, ...]:
    """The tasks of an application, sorted: one for each partition of each stage."""
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
