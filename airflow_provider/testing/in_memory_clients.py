"""A worker's two Kafka clients on topics in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogEnds, ChangelogPartition
from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.failpoint import FailPoints
from airflow_provider.kafka.names import transactional_id
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer, TaskProducer
from airflow_provider.testing.dead_letter_record import dead_letter_record
from airflow_provider.testing.in_memory_log import InMemoryLog, Record
from airflow_provider.testing.partitioner import partition_of


class InMemoryClients:
    """Makes the clients of a worker, as `KafkaClients` says.

    Args:
        log: the topics, shared by all that take part.
        partitions: by topic, over how many partitions a writer spreads its records; others get all in the first.
    """

    def __init__(self, log: InMemoryLog, partitions: Mapping[str, int] | None = None) -> None:
        self._log, self._partitions = log, partitions or {}

    def open_reader(self, job: StageSpec) -> RestoreConsumer:
        """The reader of all changelogs of a slot."""
        return InMemoryReader(self._log)

    def open_writer(self, job: StageSpec, task_id: TaskId, failpoints: FailPoints) -> TaskProducer:
        """The producer of one task."""
        return InMemoryWriter(self._log, transactional_id(job.application_id, task_id), self._partitions)


class InMemoryGroup:
    """A consumer group in memory: it keeps no offsets, because the commit records are the truth about the sources."""

    def consumer_group_metadata(self) -> object:
        """Nothing: no broker is to know the group."""
        return None


class InMemoryReader:
    """Follows changelogs in memory, as `RestoreConsumer` says; `read` gives all there is and never waits.

    Args:
        log: the topics.
    """

    def __init__(self, log: InMemoryLog) -> None:
        self._log = log
        self._offsets: dict[ChangelogPartition, int] = {}
        self.consumer = InMemoryGroup()

    @property
    def assigned(self) -> Collection[ChangelogPartition]:
        """What is read now; a view."""
        return self._offsets.keys()

    def add(self, partition: ChangelogPartition, offset: int) -> None:
        """Read a partition from `offset` on."""
        self._offsets[partition] = offset

    def remove(self, partition: ChangelogPartition) -> None:
        """Stop reading a partition."""
        self._offsets.pop(partition, None)

    def bounds(self, partition: ChangelogPartition, position: int = 0, timeout_s: float = 10.0) -> tuple[int, int]:
        """First offset that is left and the one after the last; nothing is ever compacted here."""
        return self._log.begin(*partition), self._log.end(*partition)

    def ends(self, partition: ChangelogPartition, timeout_s: float = 10.0) -> ChangelogEnds:
        """All of it can be read: what is written here is committed."""
        end = self._log.end(*partition)
        return ChangelogEnds(self._log.begin(*partition), end, end)

    def read(
        self, max_records: int, timeout_s: float, before: int | None = None
    ) -> Mapping[ChangelogPartition, ChangelogBatch]:
        """What each partition has, at most `max_records` of each."""
        batches = {}
        for partition, begin in self._offsets.items():
            found, end = self._log.read(*partition, begin, max_records)
            batch = ChangelogBatch()
            if found:
                batch.add([_ConsumedRecord(partition, offset, record) for offset, record in found], before)
            batch.next_offset = end
            batch.known_end = self._log.end(*partition)
            batch.at_end = end >= batch.known_end
            batches[partition] = batch
            self._offsets[partition] = end
        return batches

    def close(self) -> None:
        """Read nothing more."""
        self._offsets.clear()


class InMemoryWriter:
    """Writes for one task, as `TaskProducer` says; fenced by a later writer of the same transactional id.

    Args:
        log: the topics.
        transactional_id: of the task.
        partitions: by topic, over how many partitions it spreads its records; others get all in the first.
    """

    def __init__(self, log: InMemoryLog, transactional_id: str, partitions: Mapping[str, int] | None = None) -> None:
        self.transactional_id = transactional_id
        self._partitions = partitions or {}
        self._log = log
        self._epoch = 0

    @property
    def reusable(self) -> bool:
        """Always: nothing is late here."""
        return True

    def fence(self) -> None:
        """Fence every earlier owner."""
        self._epoch = self._log.fence(self.transactional_id)

    def commit(
        self,
        changes: Mapping[str, Sequence[Change]],
        outputs: Mapping[str, Sequence[Change]],
        record: CommitRecord,
        group: ConsumerGroup,
        dead_letters: Mapping[str, Sequence[DeadLetter]] | None = None,
        output_partitions: Sequence[int] | None = None,
    ) -> Mapping[str, int]:
        """As `TaskProducer.commit`; output goes to partition 0, so that it keeps the order of the commits.

        What goes to another stage is spread as Kafka's Java clients do.

        Raises:
            FencedError: a newer owner exists.
        """
        at_ms, partition = now_ms(), record.task.partition
        records = [
            (changelog, partition, Record(key=key, value=value, timestamp_ms=at_ms))
            for changelog, changed in changes.items()
            for key, value in changed
        ]
        for topic, written in outputs.items():
            number = self._partitions.get(topic, 1)
            records += [
                (topic, to, Record(key=key, value=value, timestamp_ms=at_ms))
                for key, value in written
                for to in ((partition_of(key, number),) if output_partitions is None else output_partitions)
            ]
        for topic, letters in (dead_letters or {}).items():
            records += [(topic, 0, dead_letter_record(letter)) for letter in letters]
        for changelog in changes:
            records.append((changelog, partition, Record(key=COMMIT_KEY, value=record.to_bytes(), timestamp_ms=at_ms)))
        last = self._log.commit(self.transactional_id, self._epoch, records)
        return {changelog: last[changelog, partition] + 1 for changelog in changes}

    def delete_before(self, changelog: str, partition: int, offset: int) -> None:
        """As `TaskProducer.delete_before`."""
        self._log.delete_before(changelog, partition, offset)

    def close(self) -> None:
        """Nothing is open between two commits."""


@dataclass(frozen=True, slots=True)
class _ConsumedRecord:
    """A record of the log in the words of confluent-kafka's `Message`."""

    _from: ChangelogPartition
    _offset: int
    _record: Record

    def topic(self) -> str:
        return self._from[0]

    def partition(self) -> int:
        return self._from[1]

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value

    def timestamp(self) -> tuple[int, int]:
        return 1, self._record.timestamp_ms
