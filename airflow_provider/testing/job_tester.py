"""Pipes records through a job."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

import msgspec

from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import Role, TaskState
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.operations.timed_rows import TimedOperation
from airflow_provider.streaming.planner.compiled_job import CompiledJob, compile_job
from airflow_provider.streaming.planner.topic_facts import TopicFacts
from airflow_provider.streaming.worker.task import Task
from airflow_provider.streaming.worker.task_time import time_of_commit
from airflow_provider.testing.counts import Counts
from airflow_provider.testing.dead_letter_record import read_dead_letter
from airflow_provider.testing.in_memory_log import InMemoryLog, Record
from airflow_provider.testing.input_record import InputRecord, key_bytes, value_bytes
from airflow_provider.testing.output_record import OutputRecord
from airflow_provider.testing.partitioner import partition_of
from airflow_provider.testing.source_rows import SourceRecord, SourceRows, signed
from airflow_provider.testing.tested_instance import TestedInstance

__all__ = ["JobTester"]

_DAY_MS: Final = 86_400_000

_Store = Literal["kept", "empty"]


class JobTester:
    """Runs a job in this process: pipe records in, read output, state and dead letters.

    The words are those of Kafka Streams' ``TopologyTestDriver``. Every pipe is one micro-batch, and returns when it is
    committed. Close the tester, or use it as a context manager: its stores lie in a temporary folder.

    Args:
        job: complete, as it would be given to `run`.
        partitions: of the source topic, which is the number of tasks.

    Raises:
        ConfigurationError: the job is not complete, or there are no partitions.
    """

    def __init__(self, job: StatefulJob, partitions: int = 1) -> None:
        if partitions < 1:
            raise ConfigurationError(f"JobTester() got partitions={partitions}: it must be 1 or more.")
        self._job = _compiled(job, partitions)
        self._rows = SourceRows(self._job)
        self._log = InMemoryLog()
        self._folder = tempfile.TemporaryDirectory(prefix="job-tester-")
        self._active, self._standby = self._instance("i1"), self._instance("i2")
        self._generation = 1
        self._output_read = 0
        self._closed = False
        try:
            self._active.become(Role.ACTIVE, self._generation)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    # -- input ---------------------------------------------------------------------------------------------------

    def pipe_input(
        self,
        value: Any,
        key: str | bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Process one record, as a micro-batch of its own.

        Args:
            value: a dict, which becomes JSON, with a NaN as the bare word, which no job takes; bytes and texts are
                taken as they are; None is a null value. Or an `InputRecord`, which says all by itself.
            key: the record's; default the value's `group_by` column where it has one.
            partition: of the source topic; default the one that Kafka's Java clients choose for the key.
            timestamp_ms: epoch ms; default now.

        Raises:
            RecordError: the record cannot be processed, and the job's policy is ``"fail"``. The task stopped with
                it: its state is as of the last commit, and what is piped to it later raises the same.
            StateError: its task's store cannot be used. What is piped next, to whichever task, restores the store from
                its changelog first, as an instance does, and goes on from the last commit.
            RuntimeError: the tester is closed.
            ConfigurationError: the source topic has no such partition, the key is neither text nor bytes, or the
                operation cannot keep a column's type.
        """
        given = isinstance(value, InputRecord)
        self.pipe_inputs(
            [value if given else InputRecord(value, key=key, partition=partition, timestamp_ms=timestamp_ms)]
        )

    def pipe_inputs(self, values: Iterable[Any]) -> None:
        """Process several records as one micro-batch.

        Args:
            values: each as in `pipe_input`, or an `InputRecord`.

        Raises:
            RecordError: as in `pipe_input`; nothing of its task's part of the micro-batch was committed.
            StateError: as in `pipe_input`; the same.
            RuntimeError: as in `pipe_input`.
            ConfigurationError: as in `pipe_input`.
        """
        given = [value if isinstance(value, InputRecord) else InputRecord(value) for value in values]
        records = [self._source_record(record) for record in given]
        for partition, record in records:  # none of them before all of them are found right
            self._log.append(self._job.source.topic, partition, record)
        self._process({partition for partition, _ in records})

    # -- what came of it -----------------------------------------------------------------------------------------

    def read_output(self) -> list[OutputRecord]:
        """The records of the sink topic since the last call, oldest first."""
        if self._job.spec.sink_topic is None:
            return []
        found, self._output_read = self._log.read(self._job.spec.sink_topic, 0, self._output_read)
        return [
            OutputRecord(
                (record.key or b"").decode(), None if record.value is None else msgspec.json.decode(record.value)
            )
            for _, record in found
        ]

    def state(self, key: str | bytes) -> Any:
        """What the store holds for a key; None where there is nothing.

        Returns:
            For aggregates a dict by name, with the types that the rows of `process` have: a DECIMAL is a ``Decimal``, a
            DATE a ``date``; with windows a list of them, of the windows that are open, in their order, each with its
            ``window``. For `process` its own value.

        Raises:
            ConfigurationError: the key is neither text nor bytes.
            StateError: a store is lost, or cannot be read.
            RuntimeError: the tester is closed.
        """
        wanted = key_bytes(key)
        if isinstance(self._job.spec.operation, TimedOperation):
            return [state for group, _, state in self._open_windows() if group == wanted.decode()] or None
        for task in self._open_tasks():
            (stored,) = task.get_many([wanted])
            if stored is not None:
                return self._decoded(task, [stored])[0]
        return None

    def states(self) -> dict[str, Any]:
        """What the stores hold, by key, in the order of the keys; with windows by the keys of their output records.

        Raises:
            StateError: a store is lost, or cannot be read.
            RuntimeError: the tester is closed.
        """
        if isinstance(self._job.spec.operation, TimedOperation):
            return {name: state for _, name, state in sorted(self._open_windows(), key=itemgetter(1))}
        found: dict[bytes, Any] = {}
        for task in self._open_tasks():
            stored = dict(task.items())
            found.update(zip(stored, self._decoded(task, list(stored.values())), strict=True))
        return {key.decode(): found[key] for key in sorted(found)}

    def dead_letters(self) -> list[DeadLetter]:
        """All records that went to the dead-letter topic, oldest first."""
        topic = self._job.spec.error_policy.topic
        return [] if topic is None else [read_dead_letter(record) for _, record in self._log.read(topic, 0, 0)[0]]

    @property
    def counts(self) -> Counts:
        """What became of the input so far, as the last commits say: exact through restarts.

        Raises:
            StateError: a store is lost.
            RuntimeError: the tester is closed.
        """
        records = [record for task in self._open_tasks() if (record := task.commit_record) is not None]
        names = dict.fromkeys([*self._job.spec.input.filters, *(name for r in records for name in r.filtered)])
        filtered = {name: sum(r.filtered.get(name, 0) for r in records) for name in names}
        totals = (sum(getattr(record, name) for record in records) for name in ("processed", "failed", "late"))
        processed, failed, late = totals
        return Counts(processed, filtered, failed, late)

    # -- what happens to instances -------------------------------------------------------------------------------

    def restart(self, store: _Store = "kept", job: StatefulJob | None = None) -> None:
        """Restart the active instance: it is fenced off, restores its stores, and goes on from the last commit.

        Args:
            store: ``"kept"`` resumes the stores as they are; ``"empty"`` loses them, and they are replayed from their
                changelog.
            job: a changed version of the job, which the instances run from now on; None for the same.

        Raises:
            RecordError: the record that stopped the task before is still the next one.
            ConfigurationError: `store` is neither; or the changed job would misread the state, is not complete, or is
                another application.
        """
        if store not in get_args(_Store):
            raise ConfigurationError(f"restart() got store={store!r}: give {' or '.join(map(repr, get_args(_Store)))}.")
        changed = None if job is None else self._changed(job)
        self._active.close()
        if changed is not None:
            self._standby.close()
            self._job, self._rows = changed, SourceRows(changed)
            self._active.change_job(changed)
            self._standby.change_job(changed)
        if store == "empty":
            self._active.remove_stores()
        self._generation += 1
        self._active.become(Role.ACTIVE, self._generation)
        self._process(range(self._job.num_tasks))

    def promote_standby(self) -> None:
        """Let a standby, which followed the changelogs into stores of its own, take over; the active one is fenced.

        The former active one is the standby afterwards.

        Raises:
            RecordError: the record that stopped the task before is still the next one.
        """
        self._standby.become(Role.STANDBY, self._generation)
        self._generation += 1
        self._standby.become(Role.ACTIVE, self._generation)
        self._active, self._standby = self._standby, self._active
        self._standby.become(Role.STANDBY, self._generation)
        self._process(range(self._job.num_tasks))

    def close(self) -> None:
        """Close the stores and remove them."""
        if not self._closed:
            self._closed = True
            self._active.close()
            self._standby.close()
            self._folder.cleanup()

    def _changed(self, job: StatefulJob) -> CompiledJob:
        if job.application_id != self._job.spec.application_id:
            raise ConfigurationError(
                f"restart() got the job {job.application_id!r}, and {self._job.spec.application_id!r} is tested: "
                "another application begins with empty state. Give it a JobTester of its own."
            )
        return _compiled(job, self._job.num_tasks)

    def _instance(self, name: str) -> TestedInstance:
        return TestedInstance(name, self._job, Path(self._folder.name), self._log)

    def _source_record(self, given: InputRecord) -> tuple[int, Record]:
        key, number = given.key_for(self._job.source.key_name), self._job.num_tasks
        partition = partition_of(key, number) if given.partition is None else given.partition
        if not 0 <= partition < number:
            raise ConfigurationError(
                f"{given} is for partition {partition} of {self._job.source.topic!r}, which has {number} "
                "partition(s): correct the record, or give JobTester(job, partitions=...) more."
            )
        at_ms = now_ms() if given.timestamp_ms is None else given.timestamp_ms
        return partition, Record(key=key, value=value_bytes(given.value), timestamp_ms=at_ms)

    def _process(self, partitions: Iterable[int]) -> None:
        """One micro-batch of what was not processed yet; raises what stopped the task of one of `partitions`."""
        self._refuse_closed()
        if len(self._active.tasks) < self._job.num_tasks:
            self._active.process(())  # restores the stores that were lost
        records = list(self._unprocessed())
        if records:
            self._active.process(self._rows.of(records))
        for partition in sorted(partitions):
            if (error := self._active.error(TaskId(0, partition))) is not None:
                raise error

    def _open_tasks(self) -> list[Task]:
        """All tasks of the active instance; raises why the store of one is not open."""
        self._refuse_closed()
        tasks = self._active.tasks
        for task_id in (TaskId(0, partition) for partition in range(self._job.num_tasks)):
            if task_id not in tasks and (error := self._active.error(task_id)) is not None:
                raise error
        return list(tasks.values())

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RuntimeError("This JobTester is closed: use it before close(), inside of its with block.")

    def _unprocessed(self) -> Iterable[SourceRecord]:
        for task in self._active.tasks.values():
            if task.state is not TaskState.RUNNING:
                continue
            for offset, record in self._log.read(self._job.source.topic, task.partition, task.source_offset or 0)[0]:
                yield SourceRecord(partition=task.partition, offset=offset, record=record)

    def _open_windows(self) -> list[tuple[str, str, Any]]:
        """Group, output key and state of the windows of all tasks that are open."""
        found = []
        for task in self._open_tasks():
            assert isinstance(task.operation, TimedOperation)
            time = time_of_commit(task.commit_record)
            found += task.operation.read_states(list(task.items()), self._rows.schema, time)
        return found

    def _decoded(self, task: Task, stored: list[bytes]) -> list[Any]:
        return task.operation.decode_states(stored, self._rows.schema) if stored else []


def _compiled(job: StatefulJob, partitions: int) -> CompiledJob:
    # Both go on beside the processing, by the clock: they would do something else in every run of a test.
    quiet = dataclasses.replace(job, certify_interval_s=None, snapshot_settings=None)
    return signed(compile_job(quiet, TopicFacts(source_partitions=partitions, delete_retention_ms=_DAY_MS)))
