"""A micro-batch's rows, handed to the tasks that may process them; no record may crash its workers without end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.errors import WorkerError
from airflow_provider.streaming.worker.step.active_step import active_step
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.streaming.worker.tasks.task_committer import BatchResult

_CATCH_UP_S: Final = 0.5
_AT_ONCE: Final = 16
_MUCH_ROWS: Final = 2_000
_MUCH_BYTES: Final = 1 << 20
"""From which on a step is more work than waiting, and what comes of several would fill the memory."""


class BatchProcessor:
    """Takes the active steps of a slot's tasks.

    Args:
        isolating_batch: keeps one task's error from the others; gets the task and whether Spark would try again.
        own_again: fences for a task whose producer was given up after a commit.
        catch_up: follows the changelogs until a time of the monotonic clock.
        call_timeout_s: after which a call is ended, for the message.
    """

    def __init__(
        self,
        *,
        tasks: Mapping[TaskId, Task],
        isolating_batch: Callable[[TaskId, bool], AbstractContextManager[None]],
        own_again: Callable[[Task], None],
        catch_up: Callable[[float], None],
        group: ConsumerGroup,
        crashes: CrashCounter,
        call_timeout_s: float,
    ) -> None:
        self._tasks, self._isolating_batch = tasks, isolating_batch
        self._own_again, self._catch_up = own_again, catch_up
        self._group, self._crashes, self._call_timeout_s = group, crashes, call_timeout_s

    def process(
        self,
        parts: Iterable[tuple[int, pa.Table]],
        rows_of: Mapping[TaskId, int | None],
        attempts_left: bool,
        max_crashes: int,
        clock_ms: int | None = None,
    ) -> set[TaskId]:
        """Process what can be processed of the tasks' rows; returns the tasks whose rows were skipped.

        Args:
            parts: partition and rows, one partition after the other.
            rows_of: by task of one stage whose rows may be processed, where its store stood before them (`SlotWork`).
            max_crashes: how many workers may end in the middle of the same batch of a task before the task fails.
            clock_ms: the time of the micro-batch, epoch ms; None where it has none.

        Raises:
            Exception: what another attempt may get past.
        """
        by_partition = {task_id.partition: task_id for task_id in rows_of}
        stood = {task_id.partition: offset for task_id, offset in rows_of.items()}
        skipped, waiting = set[TaskId](), dict[TaskId, _Computed]()
        try:
            for partition, rows in parts:
                task_id = by_partition.get(partition)
                if task_id is None or task_id in skipped:
                    continue
                if task_id in waiting or len(waiting) == _AT_ONCE:
                    self._write(waiting, attempts_left)
                task = self._tasks.get(task_id)
                if task is not None and task.state is TaskState.RESTORING:
                    self._write(waiting, attempts_left)
                    # A fresh worker after a crash: what it lacks is most often little.
                    self._catch_up(time.monotonic() + _CATCH_UP_S)
                if (
                    task is None
                    or task.state is not TaskState.RUNNING
                    or not goes_on_from(stood[partition], at := task.source_offset)
                ):
                    skipped.add(task_id)  # the driver sees it, and a new query begins where the task stopped
                    continue
                place = Place(task_id, task.plan.generation, at)
                crashes = self._crashes.of(place)
                # Whose worker ended before is not beside others when it may end again.
                alone = crashes is not None or rows.num_rows >= _MUCH_ROWS or rows.nbytes >= _MUCH_BYTES
                if alone:
                    self._write(waiting, attempts_left)
                self._absolve(waiting)
                result = self._compute(task, rows, place, crashes or 0, attempts_left, max_crashes, clock_ms)
                if result is not None:
                    waiting[task_id] = _Computed(result, place, crashes or 0)
                    if alone:
                        self._write(waiting, attempts_left)
                stood[partition] = int(rows.column("__offset")[-1].as_py()) + 1
        finally:
            # Also of those before one that raised: each stands by itself.
            self._write(waiting, attempts_left)
        return skipped

    def _compute(
        self,
        task: Task,
        rows: pa.Table,
        place: Place,
        crashes: int,
        attempts_left: bool,
        max_crashes: int,
        clock_ms: int | None,
    ) -> BatchResult | None:
        result = None
        try:
            with self._isolating_batch(task.id, attempts_left):
                self._refuse_deadly(task, place, crashes, max_crashes)
                self._crashes.note(place, crashes + 1)
                began = time.monotonic()
                result = active_step(task, rows, clock_ms)
                task.ownership.process_s += time.monotonic() - began
        finally:
            if result is None:
                self._crashes.end(task.id)
        return result

    def _write(self, waiting: dict[TaskId, _Computed], attempts_left: bool) -> None:
        """Of different tasks side by side: most of it is waiting for the brokers.

        Raises:
            Exception: what another attempt may get past, of the first that raised, once all have ended.
        """
        writes: dict[TaskId, Callable[[], None]] = {
            of: partial(self._tasks[of].write, one.result, self._group) for of, one in waiting.items()
        }
        if len(writes) > 1:
            self._absolve(waiting)
            with ThreadPoolExecutor(len(writes)) as pool:
                writes = {of: pool.submit(write).result for of, write in writes.items()}
        waiting.clear()
        raised: Exception | None = None
        for task_id, ended in writes.items():
            try:
                with self._isolating_batch(task_id, attempts_left):
                    ended()
                    task = self._tasks[task_id]
                    if task.state is TaskState.OWNING:
                        self._own_again(task)
                        self._catch_up(time.monotonic() + _CATCH_UP_S)
            except Exception as error:
                raised = raised or error
            finally:
                self._crashes.end(task_id)
        if raised is not None:
            raise raised

    def _absolve(self, waiting: dict[TaskId, _Computed]) -> None:
        """What ends the worker while others are computed or written too may be none of the newest's."""
        if waiting:
            newest = next(reversed(waiting.values()))
            self._crashes.note(newest.place, newest.crashes)

    def _refuse_deadly(self, task: Task, place: Place, crashes: int, max_crashes: int) -> None:
        if crashes >= max_crashes:
            raise WorkerError(
                f"{crashes} worker(s) ended in the middle of the batch of {task.job.input.topic}[{task.partition}] "
                f"that begins at offset {place.source_offset or 0}: they crashed, or took longer than call_timeout_s "
                f"({self._call_timeout_s:g} s) and were ended. Look into the instance's log and at the records there, "
                "then correct the job's function or its libraries."
            )


@dataclass(frozen=True)
class _Computed:
    """What came of a task's rows, and is to be written.

    Args:
        crashes: of workers at this place, before.
    """

    result: BatchResult
    place: Place
    crashes: int


def goes_on_from(stood: int | None, stands: int | None) -> bool:
    """Whether rows that follow a source offset leave no gap behind a store.

    A changelog that lost its newest commits, and a store that was restored from it since, stand before.
    """
    return (stood or 0) <= (stands or 0)


@dataclass(frozen=True)
class Place:
    """Where a task goes on: from a source offset, in a generation."""

    task: TaskId
    generation: int
    source_offset: int | None

    @property
    def text(self) -> str:
        """By what it is known again."""
        return f"{self.generation} {self.source_offset}"


class CrashCounter:
    """How often a worker crashed in the middle of the same batch: it notes outside the worker what comes next.

    A batch that raises is answered where it raises; one that ends the process (a crash in a library, or an end by
    a caller that waited too long) leaves only this note. Kept in the folder of one incarnation. A note that cannot
    be written or read counts as none, because a full disk must not stop what needs no disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, place: Place) -> int | None:
        """How many attempts there are known to have ended their worker; None where none was left without its end."""
        with contextlib.suppress(OSError, ValueError):
            found, _, count = self._note(place.task).read_text().rpartition(" ")
            return int(count) if found == place.text else None
        return None

    def note(self, place: Place, crashes: int) -> None:
        """Note how many they are if this one does not come to its end."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._note(place.task).write_text(f"{place.text} {crashes}")

    def end(self, task: TaskId) -> None:
        """The attempt came to an end, good or bad."""
        with contextlib.suppress(OSError):
            self._note(task).unlink(missing_ok=True)

    def _note(self, task: TaskId) -> Path:
        return self._folder / f"attempt-{task}"
