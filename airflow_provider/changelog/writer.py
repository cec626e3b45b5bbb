"""The one producer that may write for a task."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient

from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.producer_queue import CHUNK, Change, ProducerQueue
from airflow_provider.common.in_thread import in_thread
from airflow_provider.errors import (
    BrokerUnreachableError,
    FencedError,
    InstanceError,
    StatefulStreamsError,
    TopicMismatchError,
)
from airflow_provider.failpoint import FailPoint, FailPoints
from airflow_provider.kafka.broker_error import broker_error, lacking
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_spec import MAX_MESSAGE_BYTES
from airflow_provider.kafka.transactional_producer import TransactionalProducer

log = logging.getLogger(__name__)

_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_GRACE_S = 2.0


class TransactionalWriter:
    """Writes a task's changes, outputs, commit record and group offsets in one Kafka transaction (KIP-98, KIP-447).

    Guarantee: once `fence` returned, no earlier owner of the same transactional id can write anything, and what it left
    open is aborted. Once `commit` returned, everything is stored; if it raised, nothing is visible to a reader under
    ``read_committed`` unless the error says that the outcome is unknown.

    Args:
        topic: one that it writes to.
        transaction_timeout_ms: after which the brokers abort what a dead owner left open, if no other takes over.
        max_message_bytes: by topic, the largest record batch that it takes; Kafka's default for those not named.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        transactional_id: str,
        topic: str,
        failpoints: FailPoints | None = None,
        transaction_timeout_ms: int = 60_000,
        timeout_s: float = 30.0,
        max_message_bytes: Mapping[str, int] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self._failpoints = failpoints or FailPoints()
        self._timeout_s = timeout_s
        limits = (max_message_bytes or {}).values() or (MAX_MESSAGE_BYTES,)
        self._client_config = connection.to_client_config()
        self._admin: AdminClient | None = None
        self._producer = TransactionalProducer(
            self._client_config
            | {
                "transaction.timeout.ms": transaction_timeout_ms,
                "client.id": transactional_id,
                "linger.ms": 5,
                # A batch has to fit into every topic; one record larger than that goes alone.
                "batch.size": min(1 << 20, *limits),
                "message.max.bytes": max(MAX_MESSAGE_BYTES, *limits),
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
                # The Java clients' partitioner, so that output lands where any other producer would put it.
                "partitioner": "murmur2_random",
            },
            transactional_id,
            topic,
            timeout_s,
        )
        self._queue = ProducerQueue(self._producer.client, timeout_s)

    @property
    def reusable(self) -> bool:
        """Whether another transaction may follow; where not, the task has to be owned again by another writer."""
        return self._producer.reusable

    def fence(self) -> None:
        """Fence every earlier owner and abort what it left open.

        Raises:
            BrokerUnreachableError: the coordinator did not answer in time.
        """
        try:
            self._producer.fence()
        except KafkaException as error:
            raise self._typed(error) from error

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
        """Write everything of one micro-batch of a task in one transaction; by changelog, the position afterwards.

        Args:
            changes: by changelog, new values by key. Of a task without a store its commit topic, with no changes.
            record: stored last in each of the changelogs, in the task's partition, under the reserved key.
            group: gets the source offsets, so that ordinary lag tools see the application.
            output_partitions: all output records are written to each of these; None leaves the choice to the
                partitioner.
            to_all: a record that is written behind them to all partitions of some topics, and how many these have.
            check: gets what is returned once the brokers have all of it, and raises where it must not be committed.

        Raises:
            ValueError: no changelog is named, so that the commit record would stand nowhere.
            FencedError: a newer owner exists.
            InstanceError: the brokers refuse the time of this host; nothing was written.
            ConfigurationError: the brokers refuse the records for good: rights, a policy, a limit that was lowered.
            BrokerUnreachableError: the brokers did not answer in time; the transaction was not committed, or its
                outcome is unknown and the next owner finds it in the changelog.
            StatefulStreamsError: what `check` raises; nothing was committed.
        """
        if not changes:
            raise ValueError("A commit needs a changelog, or the commit topic of a task without a store: name one.")
        fail, partition = self._failpoints.hit, record.task.partition
        positions: dict[str, int] = {}
        # 4a. begin
        with self._transaction({*changes, *outputs, *(dead_letters or {})}, record):
            fail(FailPoint.COMMIT_BEGUN)
            # 4b. the changelog records
            for changelog, pairs in changes.items():
                self._queue.put(changelog, pairs, partition)
            fail(FailPoint.COMMIT_CHANGES)
            # 4c. the output records
            for topic, records in outputs.items():
                for to in (None,) if output_partitions is None else output_partitions:
                    self._queue.put(topic, records, to)
            for topic, letters in (dead_letters or {}).items():
                self._queue.put_letters(topic, letters)
            if to_all is not None:
                told, topics = to_all
                for topic, number in topics.items():
                    for to in range(number):
                        self._queue.put(topic, [told], to)
            fail(FailPoint.COMMIT_OUTPUTS)
            # 4d. the commit record, last of the transaction in each changelog's partition
            self._put_commit_record(changes, record, positions)
            fail(FailPoint.COMMIT_RECORD)
            # 4e. the group's offsets, behind the records: see `TransactionalProducer`
            self._producer.flush()
            if check is not None and positions.keys() == changes.keys():
                check(positions)
            offsets = [TopicPartition(topic, partition, source.offset) for topic, source in record.sources.items()]
            self._send_offsets(offsets, group)
            fail(FailPoint.COMMIT_OFFSETS)
            # 4f. commit, where the block ends: before that no reader sees any of it, afterwards every reader all of it
        fail(FailPoint.COMMIT_DONE)
        if positions.keys() != changes.keys():
            missing = ", ".join(sorted(changes.keys() - positions.keys()))
            raise BrokerUnreachableError(
                f"The transaction of {self.transactional_id!r} was committed, but the brokers reported no offset in "
                f"{missing}. The task is owned again and goes on from its last commit."
            )
        return positions

    def rewrite(self, changelog: str, pairs: Iterable[Change], record: CommitRecord) -> int:
        """Write a whole store with its commit record, in one transaction, without output and group offsets.

        Args:
            pairs: all keys and values, each key once; they may be more than memory holds.
            record: stored last, in the task's partition, under the reserved key.

        Returns:
            The offset after the commit record.

        Raises:
            FencedError: a newer owner exists.
            BrokerUnreachableError: the brokers did not answer in time; nothing of it can be read, or all.
        """
        producer, remaining = self._producer.client, iter(pairs)
        positions: dict[str, int] = {}
        with self._transaction({changelog}, record):
            while chunk := list(itertools.islice(remaining, CHUNK)):
                self._queue.put(changelog, chunk, record.task.partition)
            self._put_commit_record([changelog], record, positions)
            # What is queued may be more than one request's deadline allows for: as long as it gets less, it goes on.
            left = len(producer) + 1
            while 0 < len(producer) < left:
                left = len(producer)
                producer.flush(self._timeout_s)
        if changelog not in positions:
            raise BrokerUnreachableError(
                f"The commit record of {self.transactional_id!r} was committed without an offset in {changelog}: look "
                "whether the topic holds it."
            )
        return positions[changelog]

    def delete_before(self, changelog: str, partition: int, offset: int) -> None:
        """Ask the brokers to delete what a changelog begins with; returns at once.

        What they refuse is logged, and asked for again with the next expiry: nothing but room depends on it.

        Args:
            changelog: the topic; its ``cleanup.policy`` has ``delete``.
        """
        at = TopicPartition(changelog, partition, offset)
        try:
            if self._admin is None:
                self._admin = AdminClient({**self._client_config})
            answers = self._admin.delete_records([at], request_timeout=self._timeout_s)
        except KafkaException as error:
            _log_refusal(at, error)
            return
        for answer in answers.values():
            answer.add_done_callback(lambda done: _log_refusal(at, done.exception()))

    def close(self) -> None:
        """Drop the producer; what is open is aborted by the next owner."""
        del self._queue, self._producer
        self._admin = None

    @contextmanager
    def _transaction(self, topics: Collection[str], record: CommitRecord) -> Iterator[None]:
        """Begin a transaction and commit it at the end; after an error of Kafka's abort it and raise the typed one.

        Args:
            record: names the sources whose offsets it commits, and the group: the application.
        """
        try:
            self._producer.begin()
            yield
            self._producer.commit()
            self._producer.client.poll(0)
        except KafkaException as error:
            cause = self._producer.cause(error)
            self._abort(cause)
            raise self._typed(cause, topics, record) from error
        except TopicMismatchError:
            with suppress(KafkaException):  # the next owner aborts it
                self._producer.abort()
            raise

    def _put_commit_record(
        self, changelogs: Iterable[str], record: CommitRecord, positions: MutableMapping[str, int]
    ) -> None:
        """Queue the commit record for each of the changelogs; `positions` gets the offset after it where it arrives."""

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                positions[str(message.topic())] = (message.offset() or 0) + 1

        data = record.to_bytes()
        for changelog in changelogs:
            self._queue.put_one(changelog, data, COMMIT_KEY, partition=record.task.partition, on_delivery=note)

    def _send_offsets(self, offsets: list[TopicPartition], group: ConsumerGroup) -> None:
        """In a thread that can be left behind: after a broker's restart librdkafka may wait here without end.

        It does not look at the deadline while it waits for the group's coordinator (librdkafka #5456, #5511). The
        producer that hangs is given up with its thread; the next one's `fence` fences it and aborts its transaction.
        """
        producer, metadata, timeout_s = self._producer.client, group.consumer_group_metadata(), self._timeout_s
        ended = in_thread(
            lambda: producer.send_offsets_to_transaction(offsets, metadata, timeout_s),
            f"offsets-{self.transactional_id}",
        )
        try:
            ended.result(self._timeout_s + _GRACE_S)
        except TimeoutError as error:
            raise BrokerUnreachableError(
                f"The coordinator of the group of {self.transactional_id!r} did not take its offsets within "
                f"{self._timeout_s:g} s: check that the brokers answer. The task is owned again and goes on from its "
                "last commit."
            ) from error

    def _abort(self, error: KafkaException) -> None:
        if error.args[0].txn_requires_abort():
            try:
                self._producer.abort()
            except KafkaException:  # the next owner aborts it
                return

    def _typed(
        self, error: KafkaException, topics: Collection[str] = (), record: CommitRecord | None = None
    ) -> StatefulStreamsError:
        reason: KafkaError = error.args[0]
        if reason.code() in _FENCED:
            return FencedError(
                f"{self.transactional_id!r} was taken over by a newer owner ({reason.str()}): nothing was written. "
                "The instance gives the task up and follows the newest assignment."
            )
        if reason.code() == KafkaError.INVALID_TIMESTAMP:
            return InstanceError(
                f"The brokers refuse the timestamps of {self.transactional_id!r} ({reason.str()}): the "
                "clock of this host differs from theirs by more than message.timestamp.after.max.ms (an hour, unless "
                "the topic says otherwise). Nothing was written. Set this host's clock."
            )
        needed = None
        if reason.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            needed = f"Describe and Write on the transactional id {self.transactional_id!r}"
        elif reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            needed = self._rights(topics, record.sources if record else ())
        elif reason.code() == KafkaError.GROUP_AUTHORIZATION_FAILED and record is not None:
            needed = f"Read on the consumer group {record.application_id!r}"
        return broker_error(
            reason,
            f"The transaction of {self.transactional_id!r}",
            "check that the brokers answer. The task is owned again and goes on from its last commit.",
            needed,
        )

    def _rights(self, written: Collection[str], read: Collection[str]) -> str:
        """Which rights a transaction lacks, as the brokers say; all that it needs on topics where they do not."""
        to_write = lacking(self._client_config, AclOperation.WRITE, written)
        to_read = lacking(self._client_config, AclOperation.READ, read)
        if not to_write and not to_read:
            to_write, to_read = sorted(written), sorted(read)
        rights = {"Describe and Write": to_write, "Describe and Read": to_read}
        return ", ".join(f"{right} on {', '.join(topics)}" for right, topics in rights.items() if topics)


def _log_refusal(at: TopicPartition, error: BaseException | None) -> None:
    if error is not None:
        log.warning(
            "The records of %s[%d] before offset %d, which are of closed windows, were not deleted (%s): the changelog "
            "grows until they are. It needs cleanup.policy=compact,delete, and the right to DELETE it.",
            at.topic,
            at.partition,
            at.offset,
            error,
        )


class ConsumerGroup(Protocol):
    """A member of the application's consumer group, as confluent-kafka's `Consumer` is one."""

    def consumer_group_metadata(self) -> object:
        """What a transactional producer needs to commit offsets for the group (KIP-447); opaque."""
