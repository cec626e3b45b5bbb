"""Topics in memory, with what this package relies on in Kafka: offsets, transactions, fencing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider.errors import FencedError


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
        """Append records as one transaction, in their order.

        Args:
            transactional_id: whose transaction it is.
            epoch: as `fence` gave it.
            records: topic, partition, record.

        Returns:
            By partition, the offset of its last record.

        Raises:
            FencedError: a later owner exists; nothing was written.
        """
        if self._epochs.get(transactional_id) != epoch:
            raise FencedError(f"{transactional_id!r} was taken over by a newer owner: nothing was written.")
        last: dict[tuple[str, int], int] = {}
        for topic, partition, record in records:
            log = self._partitions.setdefault((topic, partition), [])
            last[topic, partition] = len(log)
            log.append(record)
        for written in last:
            self._partitions[written].append(None)  # the marker
        return last

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
