"""The Kafka clients of a worker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogEnds, ChangelogPartition, ChangelogReader, PartitionReader
from airflow_provider.changelog.writer import ConsumerGroup, TransactionalWriter
from airflow_provider.common.task_id import TaskId
from airflow_provider.failpoint import FailPoints
from airflow_provider.kafka.column_consumer import END, ColumnConsumer, Columns, SourcePartition
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import transactional_id
from airflow_provider.streaming.planner.stage_spec import StageSpec

_SOURCE: Final[dict[str, Any]] = {
    # A position that is not in the log is a verdict to be taken, never an offset to be made up.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # Unlike Java's, this client takes a record for good without.
    "check.crcs": True,
    # What is assigned waits for the fetch that is under way.
    "fetch.wait.max.ms": 100,
    # A fetch waits so long while the queue is full or an event lies in it; a second unless it is set.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 200_000,
    "reconnect.backoff.max.ms": 1000,
    "allow.auto.create.topics": False,
}


class RestoreConsumer(PartitionReader, Protocol):
    """Reads the changelogs of all tasks of a slot, committed records only, as `ChangelogReader` does."""

    @property
    def consumer(self) -> ConsumerGroup: ...
    @property
    def assigned(self) -> Collection[ChangelogPartition]: ...
    def bounds(self, partition: ChangelogPartition, position: int = 0, timeout_s: float = 10.0) -> tuple[int, int]: ...
    def ends(self, partition: ChangelogPartition, timeout_s: float = 10.0) -> ChangelogEnds: ...
    def close(self) -> None: ...


class TaskProducer(Protocol):
    """The one producer that may write for a task, as `TransactionalWriter` is."""

    @property
    def reusable(self) -> bool: ...
    def fence(self) -> None: ...
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
    ) -> Mapping[str, int]: ...
    def delete_before(self, changelog: str, partition: int, offset: int) -> None: ...
    def close(self) -> None: ...


class SourceConsumer(Protocol):
    """Reads partitions from given offsets, as `ColumnConsumer` does."""

    @property
    def ready(self) -> int: ...
    def assign(self, offsets: Mapping[SourcePartition, int]) -> None: ...
    def unassign(self, partitions: Collection[SourcePartition]) -> None: ...
    def ends(
        self, partitions: Collection[SourcePartition], timeout_s: float, offset: int = END
    ) -> Mapping[SourcePartition, int]: ...
    def read(self, most: int, timestamps: Collection[str] = ()) -> Columns: ...
    def close(self) -> None: ...


class KafkaClients(Protocol):
    """Makes the clients by which a worker reaches its changelogs and its sources."""

    def open_reader(self, job: StageSpec) -> RestoreConsumer:
        """The one reader of all changelogs of a slot."""

    def open_source(self, application_id: str) -> SourceConsumer:
        """A consumer for the sources of a slot; it reads nothing before it is told to."""

    def open_writer(self, job: StageSpec, task_id: TaskId, failpoints: FailPoints) -> TaskProducer:
        """A producer for one task; nothing is sent before it fences."""


@dataclass(frozen=True)
class ClusterClients(KafkaClients):
    """Clients of a Kafka cluster."""

    connection: KafkaConnection

    def open_reader(self, job: StageSpec) -> RestoreConsumer:
        return ChangelogReader(self.connection, job.application_id, job.restore)

    def open_source(self, application_id: str) -> SourceConsumer:
        own = {"group.id": application_id, "client.id": f"{application_id}-source-reader"}
        return ColumnConsumer(_SOURCE | self.connection.to_client_config() | own)

    def open_writer(self, job: StageSpec, task_id: TaskId, failpoints: FailPoints) -> TaskProducer:
        return TransactionalWriter(
            self.connection,
            transactional_id(job.application_id, task_id),
            job.changelog,
            failpoints,
            job.transaction_timeout_ms,
            max_message_bytes=job.max_message_bytes,
        )
