"""Input that was deleted before it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import InputLostError

__all__ = ["LostInput", "lost_input"]


@dataclass(frozen=True)
class LostInput:
    """A range of a source partition's offsets.

    Args:
        begin: the first that is lost: where the task stopped.
        end: the first that the log still has.
    """

    begin: int
    end: int

    @property
    def records(self) -> int:
        """How many there were, at the most: not every offset is a record's."""
        return self.end - self.begin

    def error(self, topic: str, partition: int) -> InputLostError:
        """For the policy to fail."""
        return InputLostError(
            f"{topic}[{partition}]: the offsets {self.begin} to {self.end - 1} ({self.records} records at the most) "
            "were deleted before they were read, by the topic's retention or by a person. To go on without them, "
            "deploy the job with on_data_loss('continue'): they are counted in the task's status. Otherwise put the "
            "records back, or reset the application. Then raise the topic's retention.ms."
        )


def lost_input(asked: Mapping[TaskId, int | None], earliest: Mapping[int, int]) -> dict[TaskId, LostInput]:
    """By task, what it lost.

    Args:
        asked: the offset of the next input record; None for the earliest there is, when nothing can be lost.
        earliest: by partition, the first offset that the log still has.
    """
    return {
        task: LostInput(offset, earliest[task.partition])
        for task, offset in asked.items()
        if offset is not None and offset < earliest.get(task.partition, 0)
    }
