"""What tasks leave out: how many records lately, and by when the rows of tasks that are held will be late."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.table import utc
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.job_description import JobDescription, StageDescription, TopicKind
from airflow_provider.control.records.metrics import MetricsRecord, TaskMetrics
from airflow_provider.control.records.status import InstanceStatus, Role, TaskState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView

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


@dataclass(frozen=True, kw_only=True)
class LateOutlook:
    """How far a stage that leaves late rows out is ahead of tasks before it that do not get on.

    Args:
        stands_ms: the event time that the one of them stands at which is furthest behind, epoch ms; None where it is
            not known.
        watermark_ms: of the stage's task that is furthest ahead, epoch ms.
    """

    stage: int
    name: str
    tasks: tuple[TaskId, ...]
    stands_ms: int | None
    watermark_ms: int

    @property
    def late(self) -> bool:
        """Whether rows that come from where a task stands would be late now."""
        return self.stands_ms is not None and self.stands_ms < self.watermark_ms

    def __str__(self) -> str:
        which, held = ", ".join(map(str, self.tasks)), "is held" if len(self.tasks) == 1 else "are held"
        behind, mark = f"stage {self.stage} ({self.name})", utc(self.watermark_ms)
        way_out = "Pause the instances until it is well, by the operate DAG, and time stands still."
        if self.stands_ms is None:
            return f"task {which} {held}: rows before {mark} are late for {behind} when it goes on. {way_out}"
        stands = utc(self.stands_ms)
        if self.late:
            return (
                f"task {which} {held} at event time {stands}, and rows before {mark} are late for {behind}: those in "
                f"between will be left out and counted. {way_out}"
            )
        return (
            f"task {which} {held} at event time {stands}: its rows begin to be late for {behind} when that has got "
            f"{(self.stands_ms - self.watermark_ms) / 1000:,.0f} s of event time further, its watermark stands at "
            f"{mark}. {way_out}"
        )


def late_outlooks(view: ControlView, silent: Collection[str] = ()) -> Iterator[LateOutlook]:
    """For each stage that leaves late rows out: the tasks before it that do not get on, where others do.

    Args:
        silent: the instances that live no more, though they reported no end.
    """
    job, assignment = view.job, view.assignment
    if job is None or assignment is None:
        return
    held = {
        task
        for task, of in assignment.tasks.items()
        if _held(view.statuses.get(of.active or ""), task, of.active, silent)
    }
    for stage in _leaving_out(job):
        before = _stages_before(job, stage)
        feeding = {task for task in assignment.tasks if task.stage in before}
        marks = [
            task.time.watermark_ms
            for status in view.statuses.values()
            for task in status.tasks
            if task.task.stage == stage.number and task.time.watermark_ms is not None
        ]
        stopped = sorted(feeding & held)
        if not stopped or not marks:
            continue
        stands = [_stands_ms(view, task) for task in stopped]
        outlook = LateOutlook(
            stage=stage.number,
            name=stage.name,
            tasks=tuple(stopped),
            stands_ms=None if None in stands else min(at for at in stands if at is not None),
            watermark_ms=max(marks),
        )
        # Where all of them are held nothing moves time.
        if outlook.late or feeding - held:
            yield outlook


def _held(status: InstanceStatus | None, task: TaskId, name: str | None, silent: Collection[str]) -> bool:
    if status is None or not status.state.alive or name in silent or status.paused:
        return True
    own = status.task(task)
    if own is None or own.role is not Role.ACTIVE or own.state is not TaskState.RUNNING:
        return True
    return own.source.stalled_s > Timeouts.stall_s or own.source.waits_for is not None


def _leaving_out(job: JobDescription) -> Iterator[StageDescription]:
    windowed = {topic.stage for topic in job.topics if topic.kind is TopicKind.CHANGELOG and topic.windowed}
    return (stage for stage in job.stages if stage.number in windowed)


def _stages_before(job: JobDescription, stage: StageDescription) -> set[int]:
    """Those whose rows come to a stage over topics between them."""
    between = set(job.names(TopicKind.REPARTITION))
    found, sources = set[int](), {stage.source} & between
    while sources:
        writers = [one for one in job.stages if not sources.isdisjoint(one.outputs) and one.number not in found]
        found |= {writer.number for writer in writers}
        sources = {writer.source for writer in writers} & between
    return found


def _stands_ms(view: ControlView, task: TaskId) -> int | None:
    """The greatest event time that it has committed, as any copy of it says."""
    copies = (status.task(task) for status in view.statuses.values())
    return max((copy.stream_time_ms for copy in copies if copy and copy.stream_time_ms is not None), default=None)
