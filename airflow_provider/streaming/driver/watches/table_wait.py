"""Holds a stream's rows back until the table that they meet has been read as far as it goes."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TableWaitStatus
from airflow_provider.error_text import LastReported
from airflow_provider.streaming.driver.watches.source_ends import Ends, SourceEnd
from airflow_provider.streaming.planner.compiled_job import CompiledJob, CompiledStage

log = logging.getLogger(__name__)

_POLL_S: Final = 0.02
_LOOK_S: Final = 0.2
_CALM_LOOK_S: Final = 5.0
"""Where nothing has moved for long, a table's task is gone or held."""
_CLOSE_S: Final = 1.0
_WORTH_S: Final = 5.0
"""A table that changes is always a little behind."""


class Positions(Protocol):
    """What is needed here of `CommitPositions`."""

    def offset(self, task: TaskId) -> int | None: ...


def stages_before(job: CompiledJob) -> Mapping[int, tuple[CompiledStage, ...]]:
    """By stage that writes a stream's rows for a join with a table: the stages by which the table's rows come there.

    Each is behind those that write what it reads. There are several where the table is a join of tables.
    """
    found = {}
    for stage in job.stages:
        beside = [other for other in job.stages if not set(other.spec.outputs).isdisjoint(stage.spec.outputs)]
        tables = {other.number for other in beside if other.source.table}
        if tables and not stage.source.table:
            needed = _with_writers(job, tables)
            found[stage.number] = tuple(one for one in job.stages if one.number in needed)
    return found


def _with_writers(job: CompiledJob, numbers: Collection[int]) -> set[int]:
    """Some stages with all of those that write what they read."""
    sources = {job.stage(number).source.topic for number in numbers if job.stage(number).source.from_stage}
    writers = {stage.number for stage in job.stages if not sources.isdisjoint(stage.spec.outputs)} - set(numbers)
    return _with_writers(job, {*numbers, *writers}) if writers else set(numbers)


class TableWait:
    """Decides, for a micro-batch of a stream, when the table has been read as far as it went when it was read.

    The ends of the table's topic are asked for once the rows of the micro-batch are known, and waited for in the
    commits of the stage that reads it. So nothing has to be remembered: whoever reads the rows again waits again.

    `wait` may be called by several threads; `of` by any.

    Args:
        stages: by stage, those that it waits for, in order; see `stages_before`.
        positions: how far their tasks have committed.
        open_ends: gives the ends of a topic; called when they are first needed, closed by `close`.
    """

    def __init__(
        self,
        stages: Mapping[int, tuple[CompiledStage, ...]],
        positions: Positions,
        open_ends: Callable[[str], Ends],
    ) -> None:
        self._stages, self._positions, self._open_ends = stages, positions, open_ends
        self._lock = threading.Lock()
        self._ends: dict[int, Ends] = {}
        self._reported = LastReported()
        self._waits: dict[TaskId, tuple[float, TableWaitStatus]] = {}

    def of(self, task: TaskId) -> TableWaitStatus | None:
        """What a task has been waiting for, for some seconds at least; None where it does not."""
        since, status = self._waits.get(task, (0.0, None))
        return status if status is not None and time.monotonic() - since >= _WORTH_S else None

    def wait(self, tasks: Collection[TaskId], given_up: Callable[[], bool]) -> bool:
        """Wait until all that the tables held when it was called is where the rows go.

        Returns:
            False where it was given up, or where nobody waits any more.
        """
        if not tasks:
            return False
        stages = self._stages.get(next(iter(tasks)).stage, ())
        since = time.monotonic()
        try:
            return all(self._wait_for(stage, tasks, since, given_up) for stage in stages)
        finally:
            for task in tasks:
                self._waits.pop(task, None)

    def close(self) -> None:
        """Leave the cluster; where a look still waits for its brokers, the process's end does."""
        if self._lock.acquire(timeout=_CLOSE_S):
            for ends in self._ends.values():
                ends.close()
            self._lock.release()

    def _wait_for(
        self, stage: CompiledStage, tasks: Collection[TaskId], since: float, given_up: Callable[[], bool]
    ) -> bool:
        looked_at, moved_at = -math.inf, time.monotonic()
        goal, begins, offsets = dict[int, int](), dict[int, int](), dict[TaskId, int | None]()
        while not given_up():
            before, offsets = offsets, {task: self._positions.offset(task) for task in stage.tasks}
            moved_at = time.monotonic() if offsets != before else moved_at
            every_s = _LOOK_S if time.monotonic() - moved_at < _WORTH_S else _CALM_LOOK_S
            if time.monotonic() - looked_at >= every_s:
                found = self._look(stage, offsets)
                looked_at = time.monotonic()
                begins = {number: end.first for number, end in found.items()}
                goal = goal or {number: end.end for number, end in found.items()}
            behind = [
                task
                for task in stage.tasks
                if task.partition not in goal
                or max(offsets[task] or 0, begins.get(task.partition, 0)) < goal[task.partition]
            ]
            if not behind:
                return True
            first = behind[0]
            status = TableWaitStatus(
                topic=stage.source.topic,
                task=first,
                others=len(behind) - 1,
                offset=offsets[first],
                end=goal.get(first.partition),
                for_s=round(time.monotonic() - since, 1),
            )
            self._waits.update(dict.fromkeys(tasks, (since, status)))
            time.sleep(_POLL_S)
        return False

    def _look(self, stage: CompiledStage, offsets: Mapping[TaskId, int | None]) -> Mapping[int, SourceEnd]:
        """The ends of a stage's source now; nothing where they are not known, which is waited for, too."""
        with self._lock:
            try:
                ends = self._ends.get(stage.number) or self._open_ends(stage.source.topic)
                self._ends[stage.number] = ends
                found = ends.look({task.partition: offset for task, offset in offsets.items()})
            except Exception as error:
                if self._reported.is_news(error):
                    log.warning("the ends of %s, a table, are not known for now: %r", stage.source.topic, error)
                return {}
        self._reported.over()
        return found
