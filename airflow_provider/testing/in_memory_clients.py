"""Topics in memory, with what this package relies on in Kafka (offsets, transactions, fencing), and its two clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogEnds, ChangelogPartition
from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import FencedError
from airflow_provider.failpoint import FailPoints
from airflow_provider.kafka.names import transactional_id
from airflow_provider.kafka.partitioners import by_murmur2
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer, SourceConsumer, TaskProducer


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record as a reader under ``read_committed`` gets it.

    Args:
        value: its value; None for a tombstone.
        timestamp_ms: epoch ms.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Mapping[str, bytes] = field(default_factory=dict)


class InMemoryLog:
    """Partitions of committed records, and who may write.

    As in Kafka, a transaction becomes visible as a whole, its end marker takes an offset in every partition that it
    wrote, and the owner of a transactional id that called `fence` last is the only one that can commit.
    """

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, int], list[Record | None]] = {}
        self._epochs: dict[str, int] = {}
        self._begins: dict[tuple[str, int], int] = {}

    def fence(self, transactional_id: str) -> int:
        """Become the owner of a transactional id; every earlier owner is fenced.

        Returns:
            The owner's epoch, for `commit`.
        """
        self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
        return self._epochs[transactional_id]

    def commit(
        self, transactional_id: str, epoch: int, records: Iterable[tuple[str, int, Record]]
    ) -> dict[tuple[str, int], int]:
        """Append records as one transaction, in their order; by partition, the offset of its last record.

        Raises:
            FencedError: a later owner exists; nothing was written.
        """
        if not self.is_owner(transactional_id, epoch):
            raise FencedError(f"{transactional_id!r} was taken over by a newer owner: nothing was written.")
        last: dict[tuple[str, int], int] = {}
        for topic, partition, record in records:
            log = self._partitions.setdefault((topic, partition), [])
            last[topic, partition] = len(log)
            log.append(record)
        for written in last:
            self._partitions[written].append(None)  # the marker
        return last

    def is_owner(self, transactional_id: str, epoch: int) -> bool:
        """Whether nobody has fenced since."""
        return self._epochs.get(transactional_id) == epoch

    def append(self, topic: str, partition: int, record: Record) -> int:
        """Append one record outside of a transaction; its offset."""
        log = self._partitions.setdefault((topic, partition), [])
        log.append(record)
        return len(log) - 1

    def mark(self, topic: str, partition: int) -> None:
        """Write the end marker of a transaction once more, as brokers do that got no answer from one another."""
        self._partitions[topic, partition].append(None)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete what a partition begins with, up to an offset."""
        self._begins[topic, partition] = max(offset, self.begin(topic, partition))

    def begin(self, topic: str, partition: int) -> int:
        """The offset of the first record that is left."""
        return self._begins.get((topic, partition), 0)

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record or marker."""
        return len(self._partitions.get((topic, partition), ()))

    def read(
        self, topic: str, partition: int, begin: int, max_records: int | None = None
    ) -> tuple[Sequence[tuple[int, Record]], int]:
        """Records from an offset on.

        Returns:
            At most `max_records` of them with their offsets, and the offset to go on from; markers are skipped.
        """
        log = self._partitions.get((topic, partition), [])
        found: list[tuple[int, Record]] = []
        offset = max(begin, self.begin(topic, partition))
        while offset < len(log) and (max_records is None or len(found) < max_records):
            record = log[offset]
            if record is not None:
                found.append((offset, record))
            offset += 1
        while offset < len(log) and log[offset] is None:
            offset += 1
        return found, offset


def dead_letter_record(letter: DeadLetter) -> Record:
    """The record, with headers that say where it was and why it was left out."""
    headers = {name: value for name, value in letter.headers() if isinstance(value, bytes)}
    return Record(key=letter.key, value=letter.value, timestamp_ms=letter.timestamp_ms, headers=headers)


def read_dead_letter(record: Record) -> DeadLetter:
    """The inverse of `dead_letter_record`."""
    fields = {name.rpartition(".")[2]: value.decode() for name, value in record.headers.items()}
    return DeadLetter(
        key=record.key,
        value=record.value,
        topic=fields["topic"],
        partition=int(fields["partition"]),
        offset=int(fields["offset"]),
        timestamp_ms=record.timestamp_ms,
        task=TaskId.parse(fields["task"]),
        error=fields["exception"],
        message=fields["message"],
        stack=fields["stacktrace"],
    )


def partition_of(key: bytes | None, partitions: int) -> int:
    """The partition of a key: murmur2, made positive, modulo their number.

    Args:
        key: of the record; None goes to partition 0, while Kafka takes any.
    """
    return 0 if key is None or partitions == 1 else int(by_murmur2([key], partitions)[0])


class InMemoryClients:
    """Makes the clients of a worker, as `KafkaClients` says.

    Args:
        partitions: by topic, over how many partitions a writer spreads its records; others get all in the first.
    """

    def __init__(self, log: InMemoryLog, partitions: Mapping[str, int] | None = None) -> None:
        self._log, self._partitions = log, partitions or {}

    def open_reader(self, job: StageSpec) -> RestoreConsumer:
        """The reader of all changelogs of a slot."""
        return InMemoryReader(self._log)

    def open_source(self, application_id: str) -> SourceConsumer:
        """There is none: rows come with the calls."""
        raise NotImplementedError

    def open_writer(self, job: StageSpec, task_id: TaskId, failpoints: FailPoints) -> TaskProducer:
        """The producer of one task."""
        return InMemoryWriter(self._log, transactional_id(job.application_id, task_id), self._partitions)


class InMemoryGroup:
    """A consumer group in memory: it keeps no offsets, because the commit records are the truth about the sources."""

    def consumer_group_metadata(self) -> object:
        """Nothing: no broker is to know the group."""
        return None


class InMemoryReader:
    """Follows changelogs in memory, as `RestoreConsumer` says; `read` gives all there is and never waits."""

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
                keys, values = (
                    pa.array([getattr(record, of) for _, record in found], pa.binary()) for of in ("key", "value")
                )
                offsets = pa.array([offset for offset, _ in found], pa.int64())
                batch = ChangelogBatch.of(keys, values, offsets, f"{partition[0]}[{partition[1]}]", before)
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
        to_all: tuple[Change, Mapping[str, int]] | None = None,
        check: Callable[[Mapping[str, int]], object] | None = None,
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
        if to_all is not None:
            (key, value), topics = to_all
            told = Record(key=key, value=value, timestamp_ms=at_ms)
            records += [(topic, to, told) for topic, number in topics.items() for to in range(number)]
        for changelog in changes:
            records.append((changelog, partition, Record(key=COMMIT_KEY, value=record.to_bytes(), timestamp_ms=at_ms)))
        if check is not None and self._log.is_owner(self.transactional_id, self._epoch):
            check({name: self._log.end(name, partition) + len(changed) + 1 for name, changed in changes.items()})
        last = self._log.commit(self.transactional_id, self._epoch, records)
        return {changelog: last[changelog, partition] + 1 for changelog in changes}

    def delete_before(self, changelog: str, partition: int, offset: int) -> None:
        """As `TaskProducer.delete_before`."""
        self._log.delete_before(changelog, partition, offset)

    def close(self) -> None:
        """Nothing is open between two commits."""
