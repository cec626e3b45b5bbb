"""Reads the sources of a slot's tasks in the worker, beside Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.broker_error import cut_at, damage_at, refusal
from airflow_provider.kafka.column_consumer import BEGINNING, PartitionEvent, SourcePartition, by_partition
from airflow_provider.streaming.worker.tasks.kafka_clients import SourceConsumer
from airflow_provider.streaming.worker.tasks.lost_input import LostInput, LostRecords, lost_input
from airflow_provider.streaming.worker.tasks.plan import WorkerSource
from airflow_provider.streaming.worker.tasks.task import Task

log = logging.getLogger(__name__)

_MOST_RECORDS: Final = 400_000
"""Of a micro-batch: so many that the commit is no more of its cost, and so few that a failover repeats little."""
_MOST_BYTES: Final = 128 << 20
"""Of a micro-batch, as far as its records are as large as those before: so much is in a worker's memory some times."""
_UNKNOWN_BYTES: Final = 32 << 10
"""What a record is taken for before one was read."""
_LOOK_EVERY_S: Final = 5.0
_LOOK_TIMEOUT_S: Final = 1.0
_UNSURE: Final = -1
_NOT_IN_THE_LOG: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class SourceReader:
    """One consumer for all sources of a slot that its worker reads.

    A partition is read from where its task's store stands, which is asked of the task before each read: whatever became
    of the rows before, the next that are handed on are those behind the last commit. So no row is left out because
    those before it were not processed, and what would come twice is dropped by the active step. Where tasks of several
    stages read a partition, it is read once, from where the first of them stands.

    Args:
        sources: by stage.
        tasks: those that are open; a view.
        isolating: keeps one task's error from the others.
        open_consumer: makes the consumer, when the first task is read, and another where that one brings nothing more.
        lost: counts what its tasks have gone on without.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        sources: Mapping[int, WorkerSource],
        tasks: Mapping[TaskId, Task],
        isolating: Callable[[TaskId], AbstractContextManager[None]],
        open_consumer: Callable[[], SourceConsumer],
        lost: LostRecords,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources, self._tasks, self._isolating = sources, tasks, isolating
        self._open_consumer, self._clock = open_consumer, clock
        self._stages_of: dict[str, list[int]] = {}
        for stage, source in sources.items():
            self._stages_of.setdefault(source.topic, []).append(stage)
        self._timed = frozenset(source.topic for source in sources.values() if source.timestamps)
        wanted = [source.most_records for source in sources.values() if source.most_records is not None]
        self._most_records = min([_MOST_RECORDS, *wanted])
        self._consumer: SourceConsumer | None = None
        self._record_bytes: float = _UNKNOWN_BYTES
        """What a record was in the last read, in the mean."""
        self._stands: dict[TaskId, int | None] = {}
        """By task that is read, the source offset at which its store stands if all that was handed on is in it.

        `_UNSURE` from when rows are handed on until it is known that they were processed.
        """
        self._stood: dict[TaskId, int | None] = {}
        self._reached: dict[TaskId, int] = {}
        self._ends: Mapping[SourcePartition, int] = {}
        self._came_at: dict[SourcePartition, float] = {}
        """By partition that is read, when something came of it, or when it was begun."""
        self._looked_at = 0.0
        self._goes_on_at: dict[TaskId, tuple[int, int]] = {}
        self._lost = lost

    @property
    def ready(self) -> int | None:
        """A file descriptor that can be read once something has come; None while nothing is read."""
        return None if self._consumer is None else self._consumer.ready

    @property
    def began_at(self) -> Mapping[TaskId, int | None]:
        """By task of which rows are handed on, where its store stood; a view."""
        return self._stood

    def read(self, of: Collection[TaskId]) -> tuple[Sequence[tuple[int, pa.RecordBatch]], bool]:
        """What has come for some tasks, of which those that run are read; waits for nothing.

        Returns:
            By stage, raw records, those of a partition one after the other; and whether more may lie ready.
        """
        try:
            self._align({task for task in of if self._runs(task)})
            if self._consumer is None or not self._stands:
                return [], False
            most = min(self._most_records, max(1, int(_MOST_BYTES / self._record_bytes)))
            columns = self._consumer.read(most, self._timed)
            if columns.rows:
                read = columns.rows.values()
                self._record_bytes = sum(rows.nbytes for rows in read) / sum(rows.num_rows for rows in read)
            for event in columns.events:
                self._take_event(event)
            # Read again, from where its stores stand.
            self._leave([task for at in columns.left_out for task in self._read_tasks().get(at, ())])
            found = [of_stage for topic, rows in columns.rows.items() for of_stage in self._of_stages(topic, rows)]
            self._look()
        except KafkaException as error:
            log.warning("the sources cannot be read for now, their consumer is replaced: %s", error)
            self._drop_consumer()
            return [], False
        except BaseException:
            # What it had brought is lost with the error: another brings it once more.
            self._drop_consumer()
            raise
        return found, columns.more

    def handed_on(self, stage: int, rows: pa.RecordBatch, skipped: Collection[TaskId]) -> None:
        """Take note that rows were processed, but for those of some tasks, which are to come again."""
        for number, of_task in by_partition(rows):
            task = TaskId(stage, number)
            if task not in self._stands:
                continue
            if task in skipped:
                self._leave([task])
                continue
            following = of_task.column("__offset")[-1].as_py() + 1
            self._stands[task] = max(self._stood.pop(task) or 0, following)
            self._reached[task] = max(self._reached[task], following)

    def close(self) -> None:
        """Read nothing more."""
        self._drop_consumer()

    def _of_stages(self, topic: str, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each stage that reads a topic; what becomes of them is unknown from now on."""
        partitions = rows.column("__partition").unique().to_pylist()
        self._came_at |= dict.fromkeys(((topic, number) for number in partitions), self._clock())
        for stage in self._stages_of[topic]:
            read = [task for number in partitions if (task := TaskId(stage, number)) in self._stands]
            for task in read:
                self._stood[task], self._stands[task] = self._stands[task], _UNSURE
            if len(read) == len(partitions):
                yield stage, rows
            elif read:
                own = pa.array([task.partition for task in read], pa.int32())
                yield stage, rows.filter(pc.is_in(rows.column("__partition"), value_set=own))

    def _runs(self, task: TaskId) -> bool:
        found = self._tasks.get(task)
        return found is not None and found.state is TaskState.RUNNING and task.stage in self._sources

    def _align(self, wanted: Collection[TaskId]) -> None:
        """Read what is wanted, each from where its store stands."""
        self._leave([t for t, at in self._stands.items() if t not in wanted or self._tasks[t].source_offset != at])
        new = [task for task in wanted if task not in self._stands]
        if not new:
            return
        if self._consumer is None:
            self._consumer = self._open_consumer()
        partitions = {self._partition(task) for task in new}
        # Those that are read already are read again, from where the first stands.
        self._consumer.unassign(partitions & self._read_tasks().keys())
        for task in new:
            at = self._tasks[task].source_offset
            self._stands[task], self._reached[task] = at, at or 0
        read = self._read_tasks()
        self._consumer.assign({at: self._first(at, read[at]) for at in partitions})
        self._came_at |= dict.fromkeys(partitions, self._clock())

    def _first(self, at: SourcePartition, tasks: Sequence[TaskId]) -> int:
        """Where the first of the tasks stands that read a partition."""
        begins = {self._begin(task) for task in tasks}
        if BEGINNING in begins and len(begins) > 1:
            # As an offset: from wherever the log begins, it would not be said that another task's records are gone.
            assert self._consumer is not None
            earliest = self._consumer.ends([at], _LOOK_TIMEOUT_S, BEGINNING)
            if at not in earliest:
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"where {at} begins is not known"))
            begins = begins - {BEGINNING} | {earliest[at]}
        return min(begins)

    def _begin(self, task: TaskId) -> int:
        at = self._tasks[task].source_offset
        stopped_at, goes_on_at = self._goes_on_at.get(task, (None, 0))
        if at is not None and at == stopped_at:
            return goes_on_at
        self._goes_on_at.pop(task, None)
        return BEGINNING if at is None else at

    def _leave(self, tasks: Collection[TaskId]) -> None:
        for task in tasks:
            del self._stands[task], self._reached[task]
            self._stood.pop(task, None)
        if tasks and self._consumer is not None:
            self._consumer.unassign({self._partition(task) for task in tasks} - self._read_tasks().keys())

    def _drop_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._stands, self._stood, self._reached, self._ends, self._came_at = {}, {}, {}, {}, {}
        if consumer is not None:
            consumer.close()

    def _partition(self, task: TaskId) -> SourcePartition:
        return self._sources[task.stage].topic, task.partition

    def _read_tasks(self) -> dict[SourcePartition, list[TaskId]]:
        """By partition that is read, for whom."""
        found: dict[SourcePartition, list[TaskId]] = {}
        for task in self._stands:
            found.setdefault(self._partition(task), []).append(task)
        return found

    # -- what is wrong -------------------------------------------------------------------------------------------

    def _take_event(self, event: PartitionEvent) -> None:
        at = event.topic, event.partition
        tasks, code = self._read_tasks().get(at, []), event.error.code()
        if code == KafkaError._PARTITION_EOF:
            for task in tasks:
                self._reached[task] = max(self._reached[task], event.offset)
        elif tasks and code in _NOT_IN_THE_LOG:
            self._judge(tasks, at, cut_at(event.error))
        elif tasks and (stopping := _stopping(event)) is not None:
            # A client says once that it was refused, so the next try begins with another.
            self._drop_consumer()
            for task in tasks:
                with self._isolating(task):
                    raise stopping
        # Anything else passes: brokers come back, and a topic that is gone is found by the watch over topics.

    def _judge(self, tasks: Sequence[TaskId], at: SourcePartition, fell_back_to: int | None) -> None:
        """What is lost where a position is not in the log; nothing where it is there after all.

        Args:
            fell_back_to: where a new leader's log ended, as the client says; other records may lie there by now.
        """
        assert self._consumer is not None
        earliest = self._consumer.ends([at], _LOOK_TIMEOUT_S, BEGINNING)
        latest = self._consumer.ends([at], _LOOK_TIMEOUT_S)
        self._leave(tasks)  # and it is read again from where they stand, or goes on
        if at not in earliest or at not in latest:
            return
        offsets, (_, partition) = {task: self._tasks[task].source_offset for task in tasks}, at
        end = latest[at] if fell_back_to is None else max(earliest[at], min(latest[at], fell_back_to))
        for task, lost in lost_input(offsets, {partition: earliest[at]}, {partition: end}).items():
            self._go_on_or_fail(task, at, lost)

    def _go_on_or_fail(self, task: TaskId, at: SourcePartition, lost: LostInput) -> None:
        if self._sources[task.stage].goes_on_after_loss:
            log.warning("task %s %s", task, lost.told(*at))
            self._lost.count(task, lost)
            self._goes_on_at[task] = (lost.stopped_at, lost.goes_on_at)
        else:
            with self._isolating(task):
                raise lost.error(*at)

    def _look(self) -> None:
        """Look for a consumer to which nothing comes any more although a log grows, and replace it."""
        now = self._clock()
        if self._consumer is None or now - self._looked_at < _LOOK_EVERY_S:
            return
        quiet = {
            at: min(self._reached[task] for task in tasks)
            for at, tasks in self._read_tasks().items()
            if now - self._came_at[at] >= _LOOK_EVERY_S
        }
        if not quiet:
            return
        self._looked_at = now
        before = self._ends
        try:
            self._ends = self._consumer.ends(quiet.keys(), _LOOK_TIMEOUT_S)
        except KafkaException:
            self._ends = {}  # brokers that do not answer stall no consumer
            return
        stalled = sorted(at for at, end in before.items() if end > quiet.get(at, end))
        if stalled:
            log.warning("nothing comes of %s although it grows: their consumer is replaced", stalled)
            self._drop_consumer()


class WaitingReader(SourceReader):
    """Reads the source of a stream whose rows wait for a table: what was read lies here until it is let through."""

    _held: tuple[Sequence[tuple[int, pa.RecordBatch]], bool] | None = None
    _let = False

    @property
    def held(self) -> bool:
        """Whether something waits to be let through."""
        return self._held is not None and not self._let

    def let_through(self) -> None:
        """The table has been read as far as it went when the rows were."""
        self._let = self._held is not None

    @property
    def ready(self) -> int | None:
        """As of every reader; nothing is read while something waits."""
        return None if self.held else super().ready

    def read(self, of: Collection[TaskId]) -> tuple[Sequence[tuple[int, pa.RecordBatch]], bool]:
        """What was let through; else what comes is held."""
        if self.held:
            return [], False
        held, self._held, self._let = self._held, None, False
        # Where its tasks are not read for now, it comes again.
        if held is not None and not self.began_at.keys().isdisjoint(of):
            return held
        found = super().read(of)
        if not found[0]:
            return found
        self._held = found
        return [], False


def _stopping(event: PartitionEvent) -> StatefulStreamsError | None:
    """The error that stops a task, where it can read nothing more until somebody does something."""
    damaged = damage_at(f"{event.topic}[{event.partition}]", event.error)
    return damaged or refusal(event.error, f"Reading {event.topic}")
