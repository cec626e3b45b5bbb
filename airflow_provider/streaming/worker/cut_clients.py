"""A worker's Kafka clients with a fail point before each request: while a drill lasts, as if no broker answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.consumer_group import ConsumerGroup
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogEnds, ChangelogPartition
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.failpoint import FailPoints
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.kafka_clients import KafkaClients, RestoreConsumer, TaskProducer

__all__ = ["CutClients"]


class CutClients:
    """Makes clients that reach the brokers as others do, until `cut` is set.

    A request that is under way is not broken off, and no socket is closed: what is cut is every further one.

    Args:
        clients: that reach the brokers.
    """

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self.cut = False
        """Whether no broker can be reached."""

    def open_reader(self, job: StageSpec) -> RestoreConsumer:
        """See `KafkaClients`."""
        return _CutReader(self._clients.open_reader(job), self)

    def open_writer(self, job: StageSpec, task_id: TaskId, failpoints: FailPoints) -> TaskProducer:
        """See `KafkaClients`."""
        return _CutWriter(self._clients.open_writer(job, task_id, failpoints), self)

    def check(self) -> None:
        """The fail point.

        Raises:
            BrokerUnreachableError: no broker can be reached.
        """
        if self.cut:
            raise BrokerUnreachableError("A drill has cut the connection to the brokers: it comes back by itself.")


class _CutReader:
    """A `RestoreConsumer`."""

    def __init__(self, reader: RestoreConsumer, clients: CutClients) -> None:
        self._reader, self._clients = reader, clients

    @property
    def consumer(self) -> ConsumerGroup:
        return self._reader.consumer

    @property
    def assigned(self) -> Collection[ChangelogPartition]:
        return self._reader.assigned

    def add(self, partition: ChangelogPartition, offset: int) -> None:
        self._reader.add(partition, offset)

    def remove(self, partition: ChangelogPartition) -> None:
        self._reader.remove(partition)

    def bounds(self, partition: ChangelogPartition, position: int = 0, timeout_s: float = 10.0) -> tuple[int, int]:
        self._clients.check()
        return self._reader.bounds(partition, position, timeout_s)

    def ends(self, partition: ChangelogPartition, timeout_s: float = 10.0) -> ChangelogEnds:
        self._clients.check()
        return self._reader.ends(partition, timeout_s)

    def read(
        self, max_records: int, timeout_s: float, before: int | None = None
    ) -> Mapping[ChangelogPartition, ChangelogBatch]:
        # As a consumer without brokers: nothing comes.
        return {} if self._clients.cut else self._reader.read(max_records, timeout_s, before)

    def close(self) -> None:
        self._reader.close()


class _CutWriter:
    """A `TaskProducer`."""

    def __init__(self, writer: TaskProducer, clients: CutClients) -> None:
        self._writer, self._clients = writer, clients

    @property
    def reusable(self) -> bool:
        return self._writer.reusable

    def fence(self) -> None:
        self._clients.check()
        self._writer.fence()

    def commit(
        self,
        changes: Mapping[str, Sequence[Change]],
        outputs: Mapping[str, Sequence[Change]],
        record: CommitRecord,
        group: ConsumerGroup,
        dead_letters: Mapping[str, Sequence[DeadLetter]] | None = None,
        output_partitions: Sequence[int] | None = None,
    ) -> Mapping[str, int]:
        self._clients.check()
        return self._writer.commit(changes, outputs, record, group, dead_letters, output_partitions)

    def delete_before(self, changelog: str, partition: int, offset: int) -> None:
        if not self._clients.cut:
            self._writer.delete_before(changelog, partition, offset)

    def close(self) -> None:
        self._writer.close()
