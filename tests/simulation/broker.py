"""Kafka's brokers as a model: logs with leaders, transactions with their coordinator, compaction. No clock of its own.

It says no sooner yes than Kafka does. What it refuses it refuses with Kafka's codes (`Refused`), of which the client
makes errors. `tests/integration/simulation` runs the same programs against it and against Kafka.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError

Partition = tuple[str, int]


class Refused(Exception):
    """A broker's answer that is a no."""

    def __init__(self, code: int) -> None:
        super().__init__(KafkaError(code).name())
        self.code = code


@dataclass
class Record:
    """A record, or the marker of a transaction's end."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    pid: int = -1
    marker: str | None = None
    state: str = "committed"
    """``open``, ``committed`` or ``aborted``; of a record outside of transactions always ``committed``."""
    transaction: int = 0
    """Which transaction of the schedule it belongs to; 0 for none."""
    headers: object = None
    horizon_s: float | None = None
    """Of a tombstone: when it may go, which is decided when it is cleaned first."""


@dataclass
class _Producer:
    epoch: int
    sequences: list[tuple[int, int]] = field(default_factory=list)
    """Sequence and offset of the newest batches, which are taken once however often they come."""


_changes: Final = itertools.count()


class Log:
    """A partition."""

    def __init__(self) -> None:
        self.changed = next(_changes)
        """A number that no log had before it changed last: who has found nothing need not look again while it stays."""
        self.records: list[Record] = []
        self.start = self.end = 0
        self.open: dict[int, int] = {}
        """By producer, the offset of the first record of its open transaction."""
        self.producers: dict[int, _Producer] = {}
        self.no_leader_until = 0.0
        self.reported_end: tuple[float, int] = (0.0, 0)
        """Until when a new leader reports a lower end, and which."""
        self.cuts: list[int] = []
        """The ends at which new leaders began that had not got all."""

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min(self.open.values(), default=self.end)

    def append(self, record: Record) -> int:
        record.offset = self.end
        self.records.append(record)
        self.end += 1
        self.changed = next(_changes)
        return record.offset

    def cut(self, count: int) -> None:
        """The new leader has not got the newest records, nor any of a transaction of which it lacks the end."""
        end: int | None = max(self.start, self.end - count)
        while end is not None:
            self.end, end = end, self._half(end)
        self.records = self.records[: self.at(self.end)]
        self.open = {pid: first for pid, first in self.open.items() if first < self.end}
        for producer in self.producers.values():
            producer.sequences = [(number, offset) for number, offset in producer.sequences if offset < self.end]
        self.cuts.append(self.end)
        self.changed = next(_changes)

    def _half(self, end: int) -> int | None:
        """The first record before an offset of a transaction that has ended behind it."""
        ended: set[int] = set()
        found = None
        for record in reversed(self.records[: self.at(end)]):
            if record.marker is not None:
                ended.add(record.pid)
            elif record.transaction and record.state != "open" and record.pid not in ended:
                found = record.offset
        return found

    def at(self, offset: int) -> int:
        """Index of the first record from an offset on."""
        low, high = 0, len(self.records)
        while low < high:
            middle = (low + high) // 2
            if self.records[middle].offset < offset:
                low = middle + 1
            else:
                high = middle
        return low


@dataclass
class Topic:
    """A topic and what is set for it."""

    name: str
    id: str
    partitions: list[Log]
    compacted: bool = False
    append_time: bool = False
    delete_retention_s: float = 86_400.0


@dataclass
class Transaction:
    """What the coordinator knows of a transactional id."""

    id: str
    pid: int
    epoch: int
    timeout_s: float
    state: str = "empty"
    """``empty``, ``ongoing``, ``prepare-commit``, ``prepare-abort``, ``committed``, ``aborted``."""
    partitions: set[Partition] = field(default_factory=set)
    groups: dict[str, dict[Partition, int]] = field(default_factory=dict)
    offered: list[dict[Partition, int]] = field(default_factory=list)
    """The offsets of each request that came while it was open."""
    began: float = 0.0
    number: int = 0
    marking: set[Partition] = field(default_factory=set)
    fenced: bool = False


class Broker:
    """The cluster.

    Args:
        clock: seconds.
        wall_ms: epoch ms.
        later: calls something after some seconds.
        pick: a number of seconds between two, at random.
        on_append: told of each partition that can be read further.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        later: Callable[[float, Callable[[], None]], None],
        pick: Callable[[float, float], float],
        on_append: Callable[[Partition], None],
    ) -> None:
        self._clock, self._wall_ms, self._later, self._pick, self._on_append = clock, wall_ms, later, pick, on_append
        self.topics: dict[str, Topic] = {}
        self.transactions: dict[str, Transaction] = {}
        self.groups: dict[str, dict[Partition, int]] = {}
        self.no_coordinator_until = 0.0
        self.refused: dict[tuple[str, str], int] = {}
        """What is refused for now, and with which code: ``write``, ``read``, ``keep``, ``own`` or ``offsets``, and of
        which topic."""
        self.lose_marker: Partition | None = None
        """The next commit is not marked there: Kafka 4.3 loses one while a partition has no leader."""
        self.marker_lost: Callable[[Partition], None] = lambda _: None
        """Told when that happens."""
        self.ended: list[Callable[[Transaction, bool], None]] = []
        """Told when the outcome of a transaction is decided."""
        self.marked: list[Callable[[Partition, int, bool], None]] = []
        """Told when a transaction's end is marked in a partition: by producer."""
        self._next_pid, self._topic_ids, self._numbers = 1000, 0, 0

    # -- topics --------------------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int, **more: object) -> Topic:
        self._topic_ids += 1
        topic = Topic(name, f"topic-{self._topic_ids}", [Log() for _ in range(partitions)], **more)  # type: ignore[arg-type]
        self.topics[name] = topic
        return topic

    def create_again(self, name: str) -> None:
        """Delete a topic and create it under the same name."""
        before = self.topics[name]
        more = (before.compacted, before.append_time, before.delete_retention_s)
        topic = self.create(name, len(before.partitions))
        topic.compacted, topic.append_time, topic.delete_retention_s = more

    def log(self, at: Partition, *, led: bool = True) -> Log:
        topic = self.topics.get(at[0])
        if topic is None or not 0 <= at[1] < len(topic.partitions):
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PART)
        log = topic.partitions[at[1]]
        if led and log.no_leader_until > self._clock():
            raise Refused(KafkaError.NOT_LEADER_FOR_PARTITION)
        return log

    def _permit(self, what: str, topic: str = "") -> None:
        if (code := self.refused.get((what, topic))) is not None:
            raise Refused(code)

    # -- reading -------------------------------------------------------------------------------------------------

    def changed(self, at: Partition) -> int:
        """`Log.changed` of a partition; of one that answers otherwise after a while a number that nothing had."""
        topic = self.topics.get(at[0])
        log = None if topic is None else topic.partitions[at[1]]
        return next(_changes) if log is None or log.reported_end[0] > self._clock() else log.changed

    def bounds(self, at: Partition, committed: bool) -> tuple[int, int]:
        self._permit("read", at[0])
        log = self.log(at)
        if log.reported_end[0] > self._clock():
            raise Refused(KafkaError.OFFSET_NOT_AVAILABLE)  # KIP-207: not before the new leader's end has caught up
        return log.start, log.stable if committed else log.end

    def fetch(self, at: Partition, offset: int, committed: bool, most: int) -> tuple[list[Record], int, int]:
        """Records from an offset on, where to go on, and the end of what may be read.

        Raises:
            Refused: the offset is not in the log, or there is no leader.
        """
        self._permit("read", at[0])
        log = self.log(at)
        if offset < log.start or offset > log.end:
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE)
        end = log.stable if committed else log.end
        until, reported = log.reported_end
        if until > self._clock():
            end = max(log.start, min(end, reported))
            if offset > end:
                return [], offset, end
        found: list[Record] = []
        records = log.records
        for index in range(log.at(offset), len(records)):
            record = records[index]
            if record.offset >= end:
                break
            if record.marker is None and (record.state == "committed" or not committed):
                if len(found) == most:
                    return found, record.offset, end
                found.append(record)
        return found, max(offset, end), end

    # -- writing -------------------------------------------------------------------------------------------------

    def produce(
        self, at: Partition, pid: int, epoch: int, sequence: int, records: Sequence[Record], transaction: str | None
    ) -> int:
        """Append a batch once; returns the offset of its first record."""
        self._permit("write", at[0])
        log = self.log(at)
        producer = log.producers.get(pid)
        if producer is not None and epoch < producer.epoch:
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        number = 0
        if transaction is not None:
            # KIP-890 part 1: the coordinator is asked whether the partition is of an open transaction.
            known = self.transactions.get(transaction)
            if known is None or known.pid != pid:
                raise Refused(KafkaError.INVALID_PRODUCER_ID_MAPPING)
            if epoch < known.epoch:
                raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
            if known.state != "ongoing" or at not in known.partitions:
                raise Refused(KafkaError.INVALID_TXN_STATE)
            self._permit("keep", at[0])
            number = known.number
        if producer is None or epoch > producer.epoch:
            producer = log.producers[pid] = _Producer(epoch)
        for known_sequence, offset in producer.sequences:
            if known_sequence == sequence:
                return offset
        if producer.sequences and sequence < producer.sequences[-1][0]:
            raise Refused(KafkaError.DUPLICATE_SEQUENCE_NUMBER)
        first = log.end
        for record in records:
            wall_ms = self._wall_ms() if self.topics[at[0]].append_time else record.timestamp_ms
            state = "committed" if transaction is None else "open"
            log.append(
                Record(0, record.key, record.value, wall_ms, pid, None, state, number, record.headers, record.horizon_s)
            )
        producer.sequences = [*producer.sequences[-4:], (sequence, first)]
        if transaction is not None:
            log.open.setdefault(pid, first)
        else:
            self._on_append(at)
        return first

    def append(self, at: Partition, key: bytes | None, value: bytes | None) -> int:
        """As a producer outside of the schedule does, which is never refused."""
        offset = self.log(at, led=False).append(Record(0, key, value, self._wall_ms()))
        self._on_append(at)
        return offset

    # -- transactions --------------------------------------------------------------------------------------------

    def _coordinated(self) -> None:
        if self.no_coordinator_until > self._clock():
            raise Refused(KafkaError.NOT_COORDINATOR)

    def _of(self, id: str, pid: int, epoch: int) -> Transaction:
        self._coordinated()
        known = self.transactions.get(id)
        if known is None or known.pid != pid:
            raise Refused(KafkaError.INVALID_PRODUCER_ID_MAPPING)
        if known.epoch != epoch:
            raise Refused(KafkaError.PRODUCER_FENCED)
        return known

    def init_producer(self, id: str | None, timeout_s: float) -> tuple[int, int]:
        """A producer's id and epoch; what an earlier one of the same transactional id left open is aborted first."""
        if id is None:
            self._next_pid += 1
            return self._next_pid, 0
        self._coordinated()
        self._permit("own")
        known = self.transactions.get(id)
        if known is None:
            self._next_pid += 1
            known = self.transactions[id] = Transaction(id, self._next_pid, -1, timeout_s)
        if known.state.startswith("prepare"):
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        if known.state == "ongoing":
            known.epoch += 1  # PrepareEpochFence: from now on the earlier one is refused
            self._decide(known, commit=False)
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        known.epoch += 1
        known.timeout_s, known.state = timeout_s, "empty"
        return known.pid, known.epoch

    def add_partitions(self, id: str, pid: int, epoch: int, partitions: Sequence[Partition]) -> None:
        known = self._of(id, pid, epoch)
        for at in partitions:
            self._permit("write", at[0])
            self.log(at, led=False)
        self._open(known)
        known.partitions.update(partitions)

    def add_offsets(self, id: str, pid: int, epoch: int, group: str, offsets: dict[Partition, int]) -> None:
        """AddOffsetsToTxn and TxnOffsetCommit."""
        known = self._of(id, pid, epoch)
        self._permit("offsets")
        self._open(known)
        known.groups.setdefault(group, {}).update(offsets)
        known.offered.append(offsets)

    def _open(self, known: Transaction) -> None:
        if known.state.startswith("prepare"):
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        if known.state == "ongoing":
            return
        self._numbers += 1
        known.state, known.number, known.began = "ongoing", self._numbers, self._clock()
        known.partitions, known.groups, known.offered = set(), {}, []
        self._later(known.timeout_s, lambda number=known.number: self._time_out(known, number))  # type: ignore[misc]

    def _time_out(self, known: Transaction, number: int) -> None:
        if known.state == "ongoing" and known.number == number:
            known.epoch += 1
            self._decide(known, commit=False)

    def end(self, id: str, pid: int, epoch: int, commit: bool) -> None:
        """EndTxn. It says which producer it is of, and not which transaction."""
        known = self._of(id, pid, epoch)
        if known.state.startswith("prepare"):
            same = known.state == ("prepare-commit" if commit else "prepare-abort")
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS if same else KafkaError.INVALID_TXN_STATE)
        if known.state == ("committed" if commit else "aborted"):
            return
        if known.state != "ongoing":
            raise Refused(KafkaError.INVALID_TXN_STATE)
        self._decide(known, commit)

    def _decide(self, known: Transaction, commit: bool) -> None:
        known.state = "prepare-commit" if commit else "prepare-abort"
        if commit:
            for group, offsets in known.groups.items():
                self.groups.setdefault(group, {}).update(offsets)
        for tell in self.ended:
            tell(known, commit)
        lost = self.lose_marker if commit and self.lose_marker in known.partitions else None
        if lost is not None:
            self.lose_marker = None
        known.marking = set(known.partitions)
        epoch = known.epoch
        if not known.marking:
            known.state = "committed" if commit else "aborted"
        for at in sorted(known.marking):
            self._later(self._pick(0.0005, 0.02), lambda at=at: self._mark(known, at, commit, epoch, at == lost))  # type: ignore[misc]

    def _mark(self, known: Transaction, at: Partition, commit: bool, epoch: int, lost: bool = False) -> None:
        if at[0] not in self.topics:
            known.marking.discard(at)
        elif lost:
            known.marking.discard(at)
            self.marker_lost(at)
        else:
            log = self.log(at, led=False)
            if log.no_leader_until > self._clock() or self.no_coordinator_until > self._clock():
                self._later(self._pick(0.02, 0.1), lambda: self._mark(known, at, commit, epoch))
                return
            self._write_marker(log, at, known.pid, epoch, commit)
            known.marking.discard(at)
        if not known.marking:
            known.state = "committed" if commit else "aborted"

    def _write_marker(self, log: Log, at: Partition, pid: int, epoch: int, commit: bool) -> None:
        first = log.open.pop(pid, None)
        if first is not None:
            for record in log.records[log.at(first) :]:
                if record.pid == pid and record.state == "open":
                    record.state = "committed" if commit else "aborted"
        word = "commit" if commit else "abort"
        log.append(Record(0, None, None, self._wall_ms(), pid, marker=word))
        producer = log.producers.setdefault(pid, _Producer(epoch))
        if epoch > producer.epoch:
            log.producers[pid] = _Producer(epoch)
        for tell in self.marked:
            tell(at, pid, commit)
        self._on_append(at)

    def abort_hanging(self, at: Partition, pid: int) -> None:
        """As ``kafka-transactions.sh abort`` does: of a transaction that its coordinator does not know any more."""
        for known in self.transactions.values():
            if known.pid == pid and known.state not in ("ongoing", "prepare-commit", "prepare-abort"):
                self._write_marker(self.log(at), at, pid, known.epoch, commit=False)

    # -- what happens to logs ------------------------------------------------------------------------------------

    def compact(self, at: Partition, keep_last: int = 1) -> int:
        """Clean what is stable, but for the newest records; returns how many are gone."""
        topic, log = self.topics[at[0]], self.log(at, led=False)
        end = min(log.stable, log.end - keep_last)
        newest = {
            r.key: r.offset for r in log.records if r.offset < end and r.marker is None and r.state == "committed"
        }
        now, before = self._clock(), len(log.records)

        def stays(record: Record) -> bool:
            if record.offset >= end or record.marker is not None:
                return True
            if record.state != "committed" or newest[record.key] != record.offset:
                return False
            if record.value is None and record.horizon_s is None:
                record.horizon_s = now + topic.delete_retention_s
            return record.horizon_s is None or now < record.horizon_s

        log.records = [record for record in log.records if stays(record)]
        return before - len(log.records)

    def delete_records(self, at: Partition, before: int) -> int:
        """Move a log's start; returns where it is."""
        log = self.log(at)
        if before > log.end:
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE)
        log.start, log.changed = max(log.start, before), next(_changes)
        log.records = log.records[log.at(log.start) :]
        return log.start


NO_PID: Final = -1
