"""Input that cannot be read any more: what was lost of it, and what a task went on without."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import InputLostError


@dataclass(frozen=True)
class LostInput:
    """A range of a source partition's offsets.

    Args:
        begin: the first that is lost: where the task stopped, or where its log ends that lost what the task had read.
        end: the first that the log still has, or where the task stopped.
        fell_back: whether the log's end lies before the place where the task stopped: what is written there now has
            offsets that the task has processed, and is not processed.
    """

    begin: int
    end: int
    fell_back: bool = False

    @property
    def records(self) -> int:
        """How many there were, at the most: not every offset is a record's."""
        return self.end - self.begin

    @property
    def stopped_at(self) -> int:
        """The task's position, where it cannot go on."""
        return self.end if self.fell_back else self.begin

    @property
    def goes_on_at(self) -> int:
        """Where reading goes on without them; the worker leaves out what is before its task's position."""
        return self.begin if self.fell_back else self.end

    def told(self, topic: str, partition: int) -> str:
        """What happens, for the log, where the policy is to go on."""
        why = "are skipped, because the log's end fell back" if self.fell_back else "were deleted before they were read"
        return (
            f"goes on at offset {self.end} of {topic}[{partition}]: {self.records} records at the most, from offset "
            f"{self.begin} on, {why}"
        )

    def error(self, topic: str, partition: int) -> InputLostError:
        """For the policy to fail."""
        if self.fell_back:
            return InputLostError(
                f"{topic}[{partition}] ends at offset {self.begin}, and the task has processed the records before "
                f"offset {self.end}: its end fell back, by an unclean leader election, the loss of a broker's disk, or "
                "because the topic was deleted and created again. "
                f"What is written to the offsets {self.begin} to {self.end - 1} now ({self.records} records at the "
                "most) would be skipped. To go on without them, deploy the job with on_data_loss('continue'): they are "
                "counted in the task's status. Otherwise reset the application. Then set "
                "unclean.leader.election.enable=false, and min.insync.replicas=2 with three replicas."
            )
        return InputLostError(
            f"{topic}[{partition}]: the offsets {self.begin} to {self.end - 1} ({self.records} records at the most) "
            "were deleted before they were read, by the topic's retention or by a person. To go on without them, "
            "deploy the job with on_data_loss('continue'): they are counted in the task's status. Otherwise put the "
            "records back, or reset the application. Then raise the topic's retention.ms."
        )


def lost_input(
    asked: Mapping[TaskId, int | None], earliest: Mapping[int, int], latest: Mapping[int, int]
) -> dict[TaskId, LostInput]:
    """By task, what it lost.

    Args:
        asked: the offset of the next input record; None for the earliest there is, when nothing can be lost.
        earliest: by partition, the first offset that the log still has.
        latest: by partition, the offset after the last record that the log has.
    """
    lost = {}
    for task, offset in asked.items():
        if offset is None:
            continue
        if offset < (first := earliest.get(task.partition, 0)):
            lost[task] = LostInput(offset, first)
        elif offset > (end := latest.get(task.partition, offset)):
            lost[task] = LostInput(end, offset, fell_back=True)
    return lost


class LostRecords:
    """What the tasks of a slot have gone on without.

    Safe for several threads.
    """

    def __init__(self) -> None:
        self._counting = threading.Lock()
        self._ranges: Mapping[TaskId, Mapping[int, LostInput]] = {}

    def count(self, task: TaskId, lost: LostInput) -> None:
        """Once for each offset at which the task stopped: the same is found again until a commit is past it."""
        with self._counting:
            of_task = self._ranges.get(task, {})
            known = of_task.get(lost.stopped_at, lost)
            largest = max(known, lost, key=lambda one: one.records)
            self._ranges = {**self._ranges, task: {**of_task, lost.stopped_at: largest}}

    @property
    def of_tasks(self) -> Mapping[TaskId, int]:
        """By task, how many records."""
        return {task: sum(lost.records for lost in ranges.values()) for task, ranges in self._ranges.items()}

    @property
    def all(self) -> tuple[tuple[TaskId, LostInput], ...]:
        """Each of them."""
        return tuple((task, lost) for task, ranges in self._ranges.items() for lost in ranges.values())
