"""What a source topic holds for tasks, asked of the brokers beside Spark."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_provider.kafka.connection import KafkaConnection

_PROBE_S: Final = 5.0
_PROBE_BYTES: Final = 65_536


@dataclass(frozen=True)
class SourceEnd:
    """Of one partition.

    Args:
        end: the offset after the last record that can be read.
        first: no record that can be read lies between the offset that was asked about and this one.
        uncommitted_records: offsets behind ``end``, which no transaction has ended yet.
    """

    end: int
    first: int
    uncommitted_records: int

    def lag_records(self, source_offset: int | None) -> int:
        """Offsets from the next input record to the end; 0 where no record is among them.

        Also where the end fell back before the position: no record waits, and what is lost is found by who waits for
        input (`InputWait`).
        """
        return max(0, self.end - max(source_offset or 0, self.first))

    def ends_before(self, source_offset: int | None) -> bool:
        """Whether the end fell back before an offset that was there: a new leader lacks what was processed."""
        return source_offset is not None and self.end < source_offset

    def holds_nothing_from(self, source_offset: int | None) -> bool:
        """Whether no record lies at an offset or behind it, be it one that cannot be read yet; false before the first.

        Also false where the end fell back before the offset.
        """
        if source_offset is None or self.ends_before(source_offset) or self.uncommitted_records:
            return False
        return self.lag_records(source_offset) == 0


class Ends(Protocol):
    """What those that look at a source need of `SourceEnds`."""

    def look(self, offsets: Mapping[int, int | None]) -> Mapping[int, SourceEnd]: ...
    def close(self) -> None: ...


class SourceEnds:
    """Looks at the ends of a topic's partitions.

    A transaction's marker has an offset too, and so has what was aborted: behind the last record of a transactional
    producer there is always a difference. Where a position has not moved between two looks, the partition is
    therefore read from there on, until one record or the end is seen: all such at once, because a task whose records
    have not been looked for seems to stand still.

    Not safe for several threads. Close it.
    """

    def __init__(self, connection: KafkaConnection, topic: str, timeout_s: float = 10.0) -> None:
        self._topic, self._timeout_s = topic, timeout_s
        self._config: dict[str, Any] = dict(connection.to_client_config())
        self._admin = AdminClient(self._config)
        self._consumer = Consumer(
            self._config
            | {
                "group.id": f"{topic}-ends",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.message.max.bytes": _PROBE_BYTES,
                "queued.min.messages": 1,
                # By default what is assigned waits half a second for other fetches, and a second where something came.
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 5,
                "allow.auto.create.topics": False,
            }
        )
        self._empty: dict[int, tuple[int, int]] = {}
        self._asked: dict[int, int | None] = {}
        self._sure: dict[int, int] = {}

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def look(self, offsets: Mapping[int, int | None]) -> Mapping[int, SourceEnd]:
        """The ends of some partitions now.

        Args:
            offsets: by partition, the offset of the next input record; None for the earliest there is.

        Raises:
            KafkaException: the brokers refused, or did not answer.
            TimeoutError: they did not answer.
        """
        if not offsets:
            return {}
        latest, earliest = OffsetSpec.latest(), OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        ends = self._list(offsets, latest, IsolationLevel.READ_COMMITTED)
        high = self._list(offsets, latest, IsolationLevel.READ_UNCOMMITTED)
        unknown = [partition for partition, offset in offsets.items() if offset is None]
        begins = self._list(unknown, earliest, IsolationLevel.READ_UNCOMMITTED) if unknown else {}
        starts = dict[int, int]()
        for partition, offset in offsets.items():
            start = begins.get(partition, 0) if offset is None else offset
            empty_from, empty_to = self._empty.get(partition, (0, 0))
            starts[partition] = empty_to if empty_from <= start < empty_to else start
        unsure = {
            partition: start
            for partition, start in starts.items()
            if partition in self._asked
            and self._asked[partition] == offsets[partition]
            and start < ends[partition]
            and self._sure.get(partition) != start
        }
        starts |= self._read_on(unsure)
        self._asked = dict(offsets)
        return {
            partition: SourceEnd(ends[partition], start, max(0, high[partition] - ends[partition]))
            for partition, start in starts.items()
        }

    def _read_on(self, starts: Mapping[int, int]) -> Mapping[int, int]:
        """By partition, where what can be read begins: at the first record, or at the end.

        Returns:
            Those of which an answer came in time.
        """
        found = dict[int, int]()
        if not starts:
            return found
        self._consumer.assign([TopicPartition(self._topic, *at) for at in starts.items()])
        deadline = time.monotonic() + _PROBE_S
        try:
            while len(found) < len(starts) and (left_s := deadline - time.monotonic()) > 0:
                message = self._consumer.poll(left_s)
                if message is None:
                    continue
                partition = message.partition()
                if partition is None or partition in found or partition not in starts:
                    continue
                start, error = starts[partition], message.error()
                if error is None:
                    self._sure[partition] = found[partition] = start
                elif error.code() == KafkaError._PARTITION_EOF:
                    empty_from, empty_to = self._empty.get(partition, (start, start))
                    found[partition] = int(message.offset() or start)
                    self._empty[partition] = (empty_from if empty_to == start else start, found[partition])
            return found
        finally:
            self._consumer.unassign()

    def _list(self, partitions: Collection[int], spec: OffsetSpec, isolation: IsolationLevel) -> dict[int, int]:
        asked = {TopicPartition(self._topic, partition): spec for partition in partitions}
        try:
            futures = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=self._timeout_s)
            return {at.partition: future.result(self._timeout_s).offset for at, future in futures.items()}
        except TimeoutError:
            raise TimeoutError(f"no broker answered within {self._timeout_s:g} s") from None
        except KafkaException:
            # A client that lists offsets asks for a leader's epoch as it learned it first, for minutes after it ended.
            self._admin = AdminClient(self._config)
            raise
