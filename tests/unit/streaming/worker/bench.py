"""The parts of a worker that hold tasks, on real stores and on topics in memory that can be made to fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord, SourcePosition
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogEnds, ChangelogPartition
from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.failpoint import FailPoints
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import transactional_id
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.kind import StoreKind
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming.operations.process import Process, Row, ValueState
from airflow_provider.streaming.planner.stage_spec import InputSpec, StageSpec, StoreSpec
from airflow_provider.streaming.worker.slot import PlanExecution
from airflow_provider.streaming.worker.standby.changelog_follower import ChangelogFollower
from airflow_provider.streaming.worker.standby.standby_duties import StandbyDuties
from airflow_provider.streaming.worker.task_registry import TaskRegistry
from airflow_provider.streaming.worker.tasks.kafka_clients import SourceConsumer
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from airflow_provider.testing.in_memory_clients import InMemoryGroup, InMemoryLog, InMemoryReader, InMemoryWriter
from tests.builders import commit_of

APPLICATION, CHANGELOG = "app", "app-state-changelog"
GROUP = InMemoryGroup()


def last_amount(key: str, rows: list[Row], state: ValueState) -> None:
    if any(row["amount"] == 666 for row in rows):
        raise ValueError("poison")
    state.update(rows[-1]["amount"])


def job_spec() -> StageSpec:
    return StageSpec(
        application_id=APPLICATION,
        input=InputSpec(topic="orders", key_name="customer"),
        operation=Process(last_amount, ("amount",)),
        store=StoreSpec(
            name="state",
            changelog=CHANGELOG,
            kind=StoreKind(rocksdb=RocksDBOptions(block_cache_bytes=1 << 20, write_buffer_bytes=1 << 20)),
            delete_retention_ms=86_400_000,
        ),
        certify_interval_s=None,
    )


def instance_settings(folder: Path, name: str = "i1", **more: Any) -> InstanceSettings:
    run_dir = folder / f"run-{name}"
    run_dir.mkdir(parents=True, exist_ok=True)
    # Nobody listens there; nothing of this is to ask.
    nowhere = KafkaConnection("127.0.0.1:1")
    return InstanceSettings(
        application_id=APPLICATION,
        instance=name,
        incarnation=1,
        state_dir=str(folder / f"state-{name}"),
        run_dir=str(run_dir),
        connection=nowhere,
        **more,
    )


def active(partition: int, generation: int = 1, **more: Any) -> TaskPlan:
    return TaskPlan(task=TaskId(0, partition), role=Role.ACTIVE, generation=generation, **more)


def standby(partition: int, generation: int = 1, **more: Any) -> TaskPlan:
    return TaskPlan(task=TaskId(0, partition), role=Role.STANDBY, generation=generation, **more)


def rows(*amounts: int, begin: int = 0) -> pa.Table:
    """One key's rows, at consecutive offsets of the source."""
    size = len(amounts)
    return pa.table(
        {
            "__offset": pa.array(range(begin, begin + size), pa.int64()),
            "__source_key": pa.nulls(size, pa.binary()),
            "__filtered": pa.nulls(size, pa.int32()),
            "__corrupt": pa.nulls(size, pa.string()),
            "__key": pa.array([b"k"] * size, pa.binary()),
            "amount": pa.array(amounts, pa.int64()),
        }
    )


def commit_elsewhere(log: InMemoryLog, partition: int, generation: int, **values: int) -> None:
    """As an owner on another instance does: it takes over, writes and commits."""
    task = TaskId(0, partition)
    commits = [value for key, value in records_of(log, partition) if key == COMMIT_KEY and value is not None]
    last = CommitRecord.from_bytes(commits[-1], APPLICATION, task, CHANGELOG).sequence if commits else 0
    record = commit_of(
        application_id=APPLICATION,
        task=task,
        sequence=last + 1,
        generation=generation,
        instance="other",
        sources={"orders": SourcePosition(100)},
        processed=len(values),
    )
    writer = InMemoryWriter(log, transactional_id(APPLICATION, task))
    writer.fence()
    changes = [(key.encode(), str(value).encode()) for key, value in values.items()]
    writer.commit({CHANGELOG: changes}, {}, record, GROUP)


def records_of(log: InMemoryLog, partition: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values in a partition of the changelog, commit records among them."""
    return [(record.key, record.value) for _, record in log.read(CHANGELOG, partition, 0)[0]]


class FailingWriter(InMemoryWriter):
    """Raises `error`, once, instead of what it is asked for next; after `slow` commits nothing more may follow."""

    def __init__(self, log: InMemoryLog, transactional_id: str) -> None:
        super().__init__(log, transactional_id)
        self.error: Exception | None = None
        self.closed = self.slow = False

    @property
    def reusable(self) -> bool:
        return not self.slow

    def fence(self) -> None:
        self._raise()
        super().fence()

    def commit(
        self,
        changes: Mapping[str, Sequence[Change]],
        outputs: Mapping[str, Sequence[Change]],
        record: CommitRecord,
        group: ConsumerGroup,
        dead_letters: Mapping[str, Sequence[DeadLetter]] | None = None,
        output_partitions: Sequence[int] | None = None,
        to_all: tuple[Change, Mapping[str, int]] | None = None,
        check: Callable[[Mapping[str, int]], object] | None = None,
    ) -> Mapping[str, int]:
        self._raise()
        assert (self.closed, group) == (False, GROUP)
        return super().commit(changes, outputs, record, group, dead_letters, output_partitions, to_all, check)

    def close(self) -> None:
        self.closed = True
        super().close()

    def _raise(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


class FailingReader(InMemoryReader):
    """Raises `bounds_error` while it is set; puts each of `batch_errors`, by partition, into one batch."""

    def __init__(self, log: InMemoryLog) -> None:
        super().__init__(log)
        self.bounds_error: Exception | None = None
        self.batch_errors: dict[int, StatefulStreamsError] = {}
        self.hidden: tuple[int, int] | None = None
        self.asked: list[int] = []
        self.paused = False

    def bounds(self, partition: ChangelogPartition, position: int = 0, timeout_s: float = 10.0) -> tuple[int, int]:
        self.asked.append(partition[1])
        if self.bounds_error is not None:
            raise self.bounds_error
        return super().bounds(partition, position, timeout_s)

    def ends(self, partition: ChangelogPartition, timeout_s: float = 10.0) -> ChangelogEnds:
        self.asked.append(partition[1])
        if self.bounds_error is not None:
            raise self.bounds_error
        return super().ends(partition, timeout_s) if self.hidden is None else ChangelogEnds(0, *self.hidden)

    def read(
        self, max_records: int, timeout_s: float, before: int | None = None
    ) -> Mapping[ChangelogPartition, ChangelogBatch]:
        if self.paused:
            return {}
        begun = dict(self._offsets)
        batches = super().read(max_records, timeout_s, before)
        if self.hidden is not None:
            # Behind what cannot be read, the brokers report neither records nor an end.
            first, _ = self.hidden
            batches = {at: batch for at, batch in batches.items() if begun[at] <= first}
        for (_, partition), batch in batches.items():
            batch.error = self.batch_errors.pop(partition, None)
        return batches


class Bench:
    """The parts of a worker that hold tasks, as `Slot` puts them together, on Kafka's topics in memory.

    Args:
        folder: for the stores.
        log: shared with other benches.
        topic_ids: what the driver found out.
        job: in place of `job_spec`.
        more: settings of the instance.
    """

    def __init__(
        self,
        folder: Path,
        log: InMemoryLog,
        topic_ids: Mapping[str, str] | None = None,
        job: StageSpec | None = None,
        **more: Any,
    ) -> None:
        job = dataclasses.replace(job or job_spec(), topic_ids=topic_ids or {})
        self.log, self.job, self.settings = log, job, instance_settings(folder, **more)
        self.reader = FailingReader(log)
        self.reader.consumer = GROUP
        self.writers: list[FailingWriter] = []
        self.fence_errors: list[Exception] = []
        self.caught_up = 0
        self.now = 0.0
        """By which what has failed is tried again, in seconds."""
        self.duties = StandbyDuties(self.settings, {0: self.job})
        self.registry = TaskRegistry(
            settings=self.settings,
            stages={0: self.job},
            reader=self.reader,
            address="nowhere",
            duties=self.duties,
            kafka=self,
            failpoints=FailPoints(),
            clock=lambda: self.now,
        )
        self.execution = PlanExecution(self.registry, self.reader, self.duties)
        self.follower = ChangelogFollower(
            reader=self.reader,
            open_reader=lambda: self.open_reader(self.job),
            tasks=self.registry.tasks,
            isolating=self.registry.isolating,
            restore=self.job.restore,
            on_applied=lambda tasks: self.duties.tick(tasks, self.registry.isolating),
            on_caught_up=self._on_caught_up,
        )

    def hold(self, *plans: TaskPlan, follow: bool = True) -> None:
        """Apply the plans; then follow once."""
        self.execution.apply_plan(plans)
        if follow:
            self.follower.follow(0.0)

    def state(self, partition: int = 0) -> TaskState:
        return self.registry.tasks[TaskId(0, partition)].state

    def close(self) -> None:
        self.registry.close_all()

    def open_reader(self, job: StageSpec) -> InMemoryReader:
        return InMemoryReader(self.log)

    def open_source(self, application_id: str) -> SourceConsumer:
        """Rows come with the calls here."""
        raise NotImplementedError

    def open_writer(self, job: StageSpec, task_id: TaskId, failpoints: FailPoints) -> FailingWriter:
        self.writers.append(FailingWriter(self.log, transactional_id(APPLICATION, task_id)))
        if self.fence_errors:
            self.writers[-1].error = self.fence_errors.pop()
        return self.writers[-1]

    def _on_caught_up(self) -> None:
        self.caught_up += 1
        self.registry.prune_quarantine()
