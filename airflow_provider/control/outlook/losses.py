"""What tasks leave out: how many records lately."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.metrics import MetricsRecord, TaskMetrics
from airflow_provider.control.records.status import InstanceStatus, Role

HOUR_MS: Final = 3_600_000
LATELY_MS: Final = 600_000
"""What `status` calls now: some of the records that are kept, one a minute."""


@dataclass(frozen=True, kw_only=True)
class Losses:
    """What a task left out within a time.

    Args:
        late: records that came when all that they belong to was over.
        left_out: records that could not be processed, whether they are dead letters or only counted.
        late_in_all: the former since the application began.
        left_out_in_all: the latter.
    """

    late: int
    left_out: int
    late_in_all: int
    left_out_in_all: int


def recent_losses(
    records: Iterable[MetricsRecord], statuses: Mapping[str, InstanceStatus], now_ms: int, within_ms: int
) -> dict[TaskId, Losses]:
    """By task, what it left out up to now, by what its owners counted; without tasks that no record tells of.

    The counts stand in the commit records, so they go on with the next owner. Where records do not go back so far, it
    is counted from the first.

    Args:
        records: of the application, the oldest first, from at least a record before the time.
    """
    before: dict[TaskId, TaskMetrics] = {}
    for record in records:
        for task in record.tasks:
            known = task.role is Role.ACTIVE and task.late_records is not None and task.left_out_records is not None
            if known and (record.at_ms <= now_ms - within_ms or task.task not in before):
                before[task.task] = task
    found: dict[TaskId, Losses] = {}
    for status in statuses.values():
        for now in status.tasks:
            then = before.get(now.task)
            if then is None or now.role is not Role.ACTIVE:
                continue
            one = Losses(
                late=max(0, now.late_records - (then.late_records or 0)),
                left_out=max(0, now.failed_records - (then.left_out_records or 0)),
                late_in_all=now.late_records,
                left_out_in_all=now.failed_records,
            )
            other = found.get(now.task)
            # Who was active before may still be named.
            if other is None or (other.late_in_all, other.left_out_in_all) < (one.late_in_all, one.left_out_in_all):
                found[now.task] = one
    return found


def loss_lines(losses: Mapping[TaskId, Losses], when: str) -> Iterator[str]:
    """A line for each of the two kinds of which there were some."""
    late = {task: one.late for task, one in losses.items()}
    if any(late.values()):
        in_all = sum(one.late_in_all for one in losses.values())
        yield (
            f"{sum(late.values()):,} records came too late {when} and were left out ({by_task(late)}), {in_all:,} "
            "since the application began"
        )
    left_out = {task: one.left_out for task, one in losses.items()}
    if any(left_out.values()):
        in_all = sum(one.left_out_in_all for one in losses.values())
        yield (
            f"{sum(left_out.values()):,} records could not be processed {when} and were left out "
            f"({by_task(left_out)}), {in_all:,} since the application began"
        )


def by_task(numbers: Mapping[TaskId, int]) -> str:
    """The tasks with more than none, those with most first."""
    most = sorted(((number, task) for task, number in numbers.items() if number), key=lambda one: (-one[0], one[1]))
    return ", ".join(f"task {task}: {number:,}" for number, task in most)
