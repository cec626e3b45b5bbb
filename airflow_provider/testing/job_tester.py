"""Pipes records through a job."""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

import msgspec

from airflow_provider.changelog.commit_record import COMMIT_KEY
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.job_change import numbered_after, refuse_moved_stages
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.operations.operation import StoredStates
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.planner.compile import assumed_facts, compile_job
from airflow_provider.streaming.planner.compiled_job import CompiledJob, CompiledStage
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.terms.argument_check import check_kind, duration_ms
from airflow_provider.streaming.worker.tasks.replica_opening import refuse_state_of
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.testing.in_memory_clients import InMemoryLog, Record, partition_of, read_dead_letter
from airflow_provider.testing.records import Counts, InputRecord, OutputRecord, key_bytes, value_bytes
from airflow_provider.testing.source_rows import SourceRecord, SourceRows, types_of_source
from airflow_provider.testing.tested_instance import TestedInstance

_A_JOB: Final = 'a job, such as StatefulJob("spending", spent.sink("totals"))'

_Store = Literal["kept", "empty"]


class JobTester:
    """Runs a job in this process: pipe records in, read output, state and dead letters.

    The words are those of Kafka Streams' ``TopologyTestDriver``. Every pipe is one micro-batch, and returns when it is
    committed, by the later stages of the job too. Close the tester, or use it as a context manager: its stores lie in a
    temporary folder.

    Args:
        job: complete, as it would be given to `run`.
        partitions: of each source topic; a stage has as many tasks as its source has partitions.

    Raises:
        ConfigurationError: it is no job, what it does with the types of its columns cannot be done, or there are no
            partitions.
    """

    def __init__(self, job: StatefulJob, partitions: int = 1) -> None:
        check_kind("JobTester() got ", job, StatefulJob, _A_JOB)
        if partitions < 1:
            raise ConfigurationError(f"JobTester() got partitions={partitions}: it must be 1 or more.")
        self._partitions = partitions
        self._job = _compiled(job, partitions)
        self._described = job.description()
        self._rows = _rows_of_stages(self._job)
        self._log = InMemoryLog()
        self._known_ends: Counter[tuple[str, int]] = Counter()
        """By partition of a source, how many records it is known to get: one of which some are to come is not idle."""
        self._folder = tempfile.TemporaryDirectory(prefix="job-tester-")
        self._active, self._standby = self._instance("i1"), self._instance("i2")
        self._generation = 1
        self._output_read: dict[str, int] = {}
        self._clock_s = 0.0
        self._refusal: ConfigurationError | None = None
        self._closed = False
        try:
            self._active.become(Role.ACTIVE, self._generation)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- input ---------------------------------------------------------------------------------------------------

    def pipe_input(
        self,
        value: Any,
        key: str | bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        topic: str | None = None,
    ) -> None:
        """Process one record, as a micro-batch of its own.

        Args:
            value: a dict, which becomes JSON, with a NaN as the bare word, which no job takes; bytes and texts are
                taken as they are; None is a null value. Or an `InputRecord`, which says all by itself.
            key: the record's; default the value's `group_by` column where it has one.
            partition: of the source topic; default the one that Kafka's Java clients choose for the key.
            timestamp_ms: epoch ms; default now.
            topic: that it is piped into; default the job's only source.

        Raises:
            RecordError: the record cannot be processed, and the job's policy is ``"fail"``. The task stopped with
                it: its state is as of the last commit, and what is piped to it later raises the same.
            StateError: its task's store cannot be used. What is piped next, to whichever task, restores the store from
                its changelog first, as an instance does, and goes on from the last commit.
            RuntimeError: the tester is closed.
            ConfigurationError: there is no such source topic, or it has no such partition, the key is neither text nor
                bytes, or the operation cannot keep a column's type.
        """
        given = isinstance(value, InputRecord)
        record = InputRecord(value, key=key, partition=partition, timestamp_ms=timestamp_ms, topic=topic)
        self.pipe_inputs([value if given else record])

    def pipe_inputs(self, values: Iterable[Any]) -> None:
        """Process several records as one micro-batch; of several topics each run of records of one topic is one.

        So rows that are joined or united meet in the order in which they are given.

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
        coming = Counter((topic, partition) for topic, partition, _ in records)
        self._known_ends |= Counter({at: self._log.end(*at) + number for at, number in coming.items()})
        # None of them before all of them are found right.
        for _, run in itertools.groupby(records, key=itemgetter(0)):
            inputs = set[tuple[str, int]]()
            for topic, partition, record in run:
                self._log.append(topic, partition, record)
                inputs.add((topic, partition))
            self._process(inputs)

    def advance_wall_clock(self, duration: str) -> None:
        """Let time pass in which nothing comes: for a job with ``stream(idle_timeout=...)``, or timers of the clock.

        Nothing else in a job depends on the clock, which begins at `tested_instance.CLOCK_BEGINS_MS` and stands still
        else. What is not committed of a source's time is forgotten with a restart.

        Args:
            duration: such as ``"10 minutes"``.

        Raises:
            RecordError: the record that stopped a task before is still the next one.
            ConfigurationError: it is no duration.
            RuntimeError: the tester is closed.
        """
        passed_s = duration_ms("advance_wall_clock()", duration) / 1000
        self._refuse_closed()
        self._active.tick()  # from now on
        self._clock_s += passed_s
        self._active.tick()
        self._process(self._inputs)

    # -- what came of it -----------------------------------------------------------------------------------------

    def read_output(self, topic: str | None = None) -> list[OutputRecord]:
        """The records of a sink topic since the last call, oldest first.

        Args:
            topic: the sink; default the only one.

        Raises:
            ConfigurationError: the job writes no such topic, or several and none is named.
        """
        sinks = self._sinks
        if topic is None and not sinks:
            return []
        sink = _one_of("read_output()", "sink", topic, sinks)
        found, self._output_read[sink] = self._log.read(sink, 0, self._output_read.get(sink, 0))
        return [
            OutputRecord(
                (record.key or b"").decode(), None if record.value is None else msgspec.json.decode(record.value)
            )
            for _, record in found
        ]

    def state(self, key: str | bytes, store: str | None = None) -> Any:
        """What a store holds for a key; None where there is nothing.

        Args:
            key: as text or bytes.
            store: its name; default the only one.

        Returns:
            For aggregates a dict by name, with the types that the rows of `process` have: a DECIMAL is a ``Decimal``, a
            DATE a ``date``; with windows a list of them, of the windows that are open, in their order, each with its
            ``window``, whose bounds are datetimes; one outside of the years 1 to 9999 is its text, as in the output.
            For `process` its own value; with stores or timers a dict of ``value``, each store by its name, and the
            times of ``timers`` and ``clock``, without those that hold nothing.

        Raises:
            ConfigurationError: the key is neither text nor bytes, or there is no such store.
            StateError: a store is lost, or cannot be read.
            RuntimeError: the tester is closed.
        """
        timed = any(task.operation.timed for task in self._tasks_with("state()", store))
        wanted = key_bytes(key).decode("utf-8", "replace")
        found = [state for group, _, state in self._states(store) if group == wanted]
        return (found or None) if timed else next(iter(found), None)

    def states(self, store: str | None = None) -> dict[str, Any]:
        """What a store holds, by key, in the order of the keys; with windows by the keys of their output records.

        Args:
            store: its name; default the only one.

        Raises:
            ConfigurationError: there is no such store.
            StateError: a store is lost, or cannot be read.
            RuntimeError: the tester is closed.
        """
        return {name: state for _, name, state in sorted(self._states(store), key=itemgetter(1))}

    def dead_letters(self) -> list[DeadLetter]:
        """All records that went to the dead-letter topic, oldest first."""
        topic = self._job.stages[0].spec.error_policy.topic
        return [] if topic is None else [read_dead_letter(record) for _, record in self._log.read(topic, 0, 0)[0]]

    @property
    def counts(self) -> Counts:
        """What became of the input so far, as the last commits say: exact through restarts.

        What goes from stage to stage is no input of the job; what filters drop there, and what cannot be processed
        there, counts.

        Raises:
            StateError: a store is lost.
            RuntimeError: the tester is closed.
        """
        tasks = self._open_tasks()
        records = [record for task in tasks if (record := task.commit_record) is not None]
        # A source that several stages read counts once.
        sources = {s.source.topic: s.number for s in reversed(self._job.stages) if not s.source.from_stage}
        of_sources = [r for r in records if r.task.stage in sources.values()]
        filters = [name for stage in self._job.stages for name in stage.spec.input.filters]
        names = dict.fromkeys([*filters, *(name for r in records for name in r.filtered)])
        return Counts(
            processed=sum(r.processed for r in of_sources),
            filtered={name: sum(r.filtered.get(name, 0) for r in records) for name in names},
            failed=sum(r.failed for r in records),
            late=sum(r.late for r in records),
        )

    # -- what happens to instances -------------------------------------------------------------------------------

    def restart(self, store: _Store = "kept", job: StatefulJob | None = None) -> None:
        """Restart the active instance: it is fenced off, restores its stores, and goes on from the last commit.

        Args:
            store: ``"kept"`` resumes the stores as they are; ``"empty"`` loses them, and they are replayed from their
                changelog.
            job: a changed version of the job, which the instances run from now on; None for the same.

        Raises:
            RecordError: the record that stopped the task before is still the next one.
            ConfigurationError: `store` is neither; or the changed job cannot go on with what the one before it left,
                as its deployment would say; or it is no job, of another application, or does what cannot be done
                with the types of its columns.
        """
        if store not in get_args(_Store):
            raise ConfigurationError(f"restart() got store={store!r}: give {' or '.join(map(repr, get_args(_Store)))}.")
        if job is not None:
            check_kind("restart() got job=", job, StatefulJob, _A_JOB)
            job = job.numbered(numbered_after(self._described, job.description()).numbers)
        changed = None if job is None else self._changed(job)
        self._active.close()
        if changed is not None:
            self._standby.close()
            self._job, self._rows = changed, _rows_of_stages(changed)
            self._active.change_job(changed)
            self._standby.change_job(changed)
            self._refusal = self._refused(changed)
        if store == "empty":
            self._active.remove_stores()
        self._generation += 1
        self._active.become(Role.ACTIVE, self._generation)
        if job is not None:
            self._described = job.description().after(self._described)
        self._process(self._inputs)

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
        self._process(self._inputs)

    def close(self) -> None:
        """Close the stores and remove them."""
        if not self._closed:
            self._closed = True
            self._active.close()
            self._standby.close()
            self._folder.cleanup()

    def _changed(self, job: StatefulJob) -> CompiledJob:
        if job.application_id != self._job.application_id:
            raise ConfigurationError(
                f"restart() got the job {job.application_id!r}, and {self._job.application_id!r} is tested: "
                "another application begins with empty state. Give it a JobTester of its own."
            )
        # What their state means is compared by the tasks, with the types that Spark gives it.
        refuse_moved_stages(self._described, job.description())
        return _compiled(job, self._partitions)

    def _refused(self, job: CompiledJob) -> ConfigurationError | None:
        """Why an instance of a job does not start; None where it does."""
        try:
            refuse_state_of(job.specs, {task: self._last_commit(job.specs[task.stage], task) for task in job.tasks})
        except ConfigurationError as error:
            return error
        return None

    def _last_commit(self, stage: StageSpec, task: TaskId) -> bytes | None:
        records, _ = self._log.read(stage.changelog, task.partition, 0)
        return next((record.value for _, record in reversed(records) if record.key == COMMIT_KEY), None)

    def _instance(self, name: str) -> TestedInstance:
        return TestedInstance(name, self._job, Path(self._folder.name), self._log, lambda: self._clock_s)

    def _source_record(self, given: InputRecord) -> tuple[str, int, Record]:
        topics = dict.fromkeys(stage.source.topic for stage in self._job.stages if not stage.source.from_stage)
        topic = _one_of("pipe_input()", "source", given.topic, list(topics))
        stage = next(stage for stage in self._job.stages if stage.source.topic == topic)
        key, number = given.key_for(stage.source.key_name), stage.num_tasks
        partition = partition_of(key, number) if given.partition is None else given.partition
        if not 0 <= partition < number:
            raise ConfigurationError(
                f"{given} is for partition {partition} of {topic!r}, which has {number} "
                "partition(s): correct the record, or give JobTester(job, partitions=...) more."
            )
        at_ms = now_ms() if given.timestamp_ms is None else given.timestamp_ms
        return topic, partition, Record(key=key, value=value_bytes(given.value), timestamp_ms=at_ms)

    @property
    def _inputs(self) -> set[tuple[str, int]]:
        """All partitions that are read."""
        return {(self._job.stage(task.stage).source.topic, task.partition) for task in self._job.tasks}

    @property
    def _sinks(self) -> list[str]:
        between = {stage.source.topic for stage in self._job.stages if stage.source.from_stage}
        topics = dict.fromkeys(topic for stage in self._job.stages for topic in stage.spec.outputs)
        return [topic for topic in topics if topic not in between]

    def _process(self, inputs: Collection[tuple[str, int]]) -> None:
        """One micro-batch a stage of what was not processed yet, until nothing is left.

        Raises what stopped the task of one of `inputs`, which are partitions of sources, or a task of a later stage.
        """
        self._refuse_closed()
        if self._refusal is not None:
            raise self._refusal  # no instance of the job starts
        if len(self._active.tasks) < len(self._job.tasks):
            self._active.tick()  # restores the stores that were lost
        # What a stage writes may be for any other; a task that stopped leaves its records where they are.
        for _ in self._job.stages:
            had_records = [self._process_stage(stage) for stage in self._job.stages]
            if not any(had_records):
                break
        for task in self._job.tasks:
            source = self._job.stage(task.stage).source
            asked = (source.topic, task.partition) in inputs or source.from_stage
            if asked and (error := self._active.error(task)) is not None:
                raise error

    def _process_stage(self, stage: CompiledStage) -> bool:
        """Whether it had records."""
        records = list(self._unprocessed(stage))
        if records:
            idle = [task for task in self._job.tasks if not self._awaits(task, stage)]
            self._active.process(self._rows[stage.number].of(records), stage.number, idle)
        return bool(records)

    def _awaits(self, task_id: TaskId, stage: CompiledStage) -> bool:
        """Whether there are records for a task, or there will be, behind a micro-batch of all that a stage has."""
        source = self._job.stage(task_id.stage).source
        at = (source.topic, task_id.partition)
        task = self._active.tasks.get(task_id)
        taken = 0 if task is None else task.source_offset or 0
        if task_id.stage == stage.number:
            taken = self._log.end(*at)
        return taken < self._known_ends[at]

    def _open_tasks(self) -> list[Task]:
        """All tasks of the active instance; raises why the store of one is not open."""
        self._refuse_closed()
        tasks = self._active.tasks
        for task_id in self._job.tasks:
            if task_id not in tasks and (error := self._active.error(task_id)) is not None:
                raise error
        return list(tasks.values())

    def _tasks_with(self, method: str, store: str | None) -> list[Task]:
        """The tasks of the stage that keeps a store."""
        stores = {stage.spec.store.name: stage.number for stage in self._job.stages if stage.spec.keeps_state}
        number = stores[_one_of(method, "store", store, list(stores))]
        return [task for task in self._open_tasks() if task.id.stage == number]

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RuntimeError("This JobTester is closed: use it before close(), inside of its with block.")

    def _unprocessed(self, stage: CompiledStage) -> Iterable[SourceRecord]:
        for task in self._active.tasks.values():
            if task.id.stage != stage.number or task.state is not TaskState.RUNNING:
                continue
            for offset, record in self._log.read(stage.source.topic, task.partition, task.source_offset or 0)[0]:
                yield SourceRecord(partition=task.partition, offset=offset, record=record)

    def _states(self, store: str | None) -> list[tuple[str, str, Any]]:
        """Group, name and state of all that a store holds, of all tasks."""
        tasks = self._tasks_with("states()", store)
        return [found for task in tasks for found in self._read(task, list(task.replica.items()))]

    def _read(self, task: Task, items: Sequence[tuple[bytes, bytes]]) -> Iterator[tuple[str, str, Any]]:
        schema, operation = task.job.input.columns, task.operation
        return operation.read_states(
            StoredStates(items, schema, StreamTime.after(task.commit_record), task.replica.get_many)
        )


def _one_of(method: str, what: str, given: str | None, known: Sequence[str]) -> str:
    """What is named, or the only one there is."""
    if given in known:
        return str(given)
    if given is None and len(known) == 1:
        return known[0]
    there = ", ".join(map(repr, known)) or "none"
    raise ConfigurationError(f"{method} got the {what} {given!r}, and the job has {there}: name one of them.")


def _rows_of_stages(job: CompiledJob) -> dict[int, SourceRows]:
    return {stage.number: SourceRows(stage.source) for stage in job.stages}


def _compiled(job: StatefulJob, partitions: int) -> CompiledJob:
    # Both go on beside the processing, by the clock: they would do something else in every run of a test.
    quiet = dataclasses.replace(job, certify_interval_s=None, snapshot_settings=None)
    return compile_job(quiet, assumed_facts(quiet, partitions), types_of_source)
