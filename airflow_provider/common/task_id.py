"""The name of a task."""

from __future__ import annotations

import re
from typing import Final

from airflow_provider.errors import ConfigurationError

_FORM: Final = re.compile(r"(\d{1,9})_(\d{1,9})")


class TaskId:
    """A task: partition `partition` of every source, store and changelog of stage `stage`.

    Written ``<stage>_<partition>`` as in Kafka Streams (``0_3``), in JSON too (`airflow_provider.common.json_codec`).
    Ordered by stage, then partition. Immutable, and usable as a key.

    Args:
        stage: 0 for the first stage.
        partition: of its sources, stores and changelogs.
    """

    __slots__ = ("_pair",)

    def __init__(self, stage: int, partition: int) -> None:
        self._pair = (stage, partition)

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

    @property
    def stage(self) -> int:
        """The number of its stage."""
        return self._pair[0]

    @property
    def partition(self) -> int:
        """The partition of its sources, stores and changelogs."""
        return self._pair[1]

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
