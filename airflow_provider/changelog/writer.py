"""The one producer that may write for a task."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import BrokerUnreachableError, FencedError, InstanceError, StatefulStreamsError
from airflow_provider.failpoint import FailPoints

__all__ = ["Change", "TransactionalWriter"]

Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes."""

_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_CHUNK = 50_000
_GRACE_S = 2.0


class TransactionalWriter:
    """Writes a task's changes, outputs, commit record and group offsets in one Kafka transaction (KIP-98, KIP-447).

    Guarantee: once `own` returned, no earlier owner of the same transactional id can write anything, and what it left
    open is aborted. Once `commit` returned, everything is stored; if it raised, nothing is visible to a reader under
    ``read_committed`` unless the error says that the outcome is unknown.

    Args:
        connection: the cluster.
        transactional_id: of the task.
        failpoints: for tests.
        transaction_timeout_ms: after which the brokers abort what a dead owner left open, if nobody takes over.
        timeout_s: deadline of each request.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        transactional_id: str,
        failpoints: FailPoints | None = None,
        transaction_timeout_ms: int = 60_000,
        timeout_s: float = 30.0,
    ) -> None:
        self.transactional_id = transactional_id
        self._failpoints = failpoints or FailPoints()
        self._timeout_s = timeout_s
        self._producer = Producer(
            connection.to_client_config()
            | {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": transaction_timeout_ms,
                "client.id": transactional_id,
                "linger.ms": 5,
                "batch.size": 1 << 20,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
                # The Java clients' partitioner, so that output lands where any other producer would put it.
                "partitioner": "murmur2_random",
            }
        )

    def own(self) -> None:
        """Fence every earlier owner and abort what it left open.

        Raises:
            BrokerUnreachableError: the coordinator did not answer in time.
        """
        try:
            self._producer.init_transactions(self._timeout_s)
        except KafkaException as error:
            raise self._typed(error) from error

    def commit(
        self,
        changelog: str,
        partition: int,
        changes: Sequence[Change],
        outputs: Mapping[str, Sequence[Change]],
        record: CommitRecord,
        group: Consumer,
        dead_letters: Mapping[str, Sequence[DeadLetter]] | None = None,
    ) -> int:
        """Write everything of one micro-batch of a task in one transaction.

        Args:
            changelog: topic of the store's changes.
            partition: the task's number.
            changes: new values by key.
            outputs: by sink topic, the output records.
            record: stored last in the changelog, under the reserved key.
            group: a consumer whose group gets the source offsets, so that ordinary lag tools see the application.
            dead_letters: by dead-letter topic, the records that were left out.

        Returns:
            The changelog offset after the commit record: the store's next position.

        Raises:
            FencedError: a newer owner exists.
            InstanceError: the brokers refuse the time of this host; nothing was written.
            BrokerUnreachableError: the brokers did not answer in time; the transaction was not committed, or its
                outcome is unknown and the next owner finds it in the changelog.
        """
        producer, fail = self._producer, self._failpoints.hit
        stored_at: list[int] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                stored_at.append(message.offset() or 0)

        try:
            # 4a. begin
            producer.begin_transaction()
            fail("commit.begun")
            # 4b. the changelog records
            self._produce(changelog, changes, partition)
            fail("commit.changes")
            # 4c. the output records
            for topic, records in outputs.items():
                self._produce(topic, records, None)
            for topic, letters in (dead_letters or {}).items():
                self._produce_letters(topic, letters)
            fail("commit.outputs")
            # 4d. the commit record, last of the transaction in this partition
            producer.produce(changelog, record.to_bytes(), COMMIT_KEY, partition=partition, on_delivery=note)
            fail("commit.record")
            # 4e. the group's offsets
            offsets = [TopicPartition(topic, partition, offset) for topic, offset in record.source_offsets.items()]
            self._send_offsets(offsets, group)
            fail("commit.offsets")
            # 4f. commit: before this returns nobody sees any of it, afterwards everybody sees all of it
            producer.commit_transaction(self._timeout_s)
            producer.poll(0)
        except KafkaException as error:
            typed = self._typed(error)
            self._abort(error)
            raise typed from error
        fail("commit.done")
        if not stored_at:
            raise BrokerUnreachableError(
                f"The commit record of {self.transactional_id!r} was committed without an offset: restart the task."
            )
        return stored_at[-1] + 1

    def close(self) -> None:
        """Drop the producer; what is open is aborted by the next owner."""
        del self._producer

    def _send_offsets(self, offsets: list[TopicPartition], group: Consumer) -> None:
        """In a thread that can be left behind: after a broker's restart librdkafka may wait here for ever.

        It does not look at the deadline while it waits for the group's coordinator (librdkafka #5456, #5511). The
        producer that hangs is given up with its thread; the next one's `own` fences it and aborts its transaction.
        """
        producer, metadata, ended = self._producer, group.consumer_group_metadata(), Future[None]()

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(offsets, metadata, self._timeout_s)
            except Exception as error:
                ended.set_exception(error)
            else:
                ended.set_result(None)

        Thread(target=send, name=f"offsets-{self.transactional_id}", daemon=True).start()
        try:
            ended.result(self._timeout_s + _GRACE_S)
        except TimeoutError as error:
            raise BrokerUnreachableError(
                f"The coordinator of the group of {self.transactional_id!r} did not take its offsets within "
                f"{self._timeout_s:g} s: check that the brokers answer. The task is owned again and goes on from its "
                "last commit."
            ) from error

    def _produce(self, topic: str, records: Sequence[Change], partition: int | None) -> None:
        # -1 leaves the choice to the partitioner.
        to = -1 if partition is None else partition
        for start in range(0, len(records), _CHUNK):
            messages: list[dict[str, Any]] = [
                {"key": key, "value": value} for key, value in records[start : start + _CHUNK]
            ]
            deadline = time.monotonic() + self._timeout_s
            while self._producer.produce_batch(topic, messages, to) < len(messages):
                # The queue is full: send some, then try those that did not fit.
                messages = [{"key": m["key"], "value": m["value"]} for m in messages if m.get("_error") is not None]
                if time.monotonic() > deadline:
                    raise BrokerUnreachableError(
                        f"{len(messages)} records for {topic} did not fit into the producer's queue for "
                        f"{self._timeout_s:g} s: the brokers are too slow or do not answer."
                    )
                self._producer.poll(0.05)
            self._producer.poll(0)

    def _produce_letters(self, topic: str, letters: Sequence[DeadLetter]) -> None:
        # One by one: a batch carries no headers.
        for letter in letters:
            self._producer.produce(
                topic, letter.value, letter.key, timestamp=letter.timestamp_ms, headers=letter.headers()
            )
            self._producer.poll(0)

    def _abort(self, error: KafkaException) -> None:
        if error.args[0].txn_requires_abort():
            try:
                self._producer.abort_transaction(self._timeout_s)
            except KafkaException:  # the next owner aborts it
                return

    def _typed(self, error: KafkaException) -> StatefulStreamsError:
        reason: KafkaError = error.args[0]
        if reason.code() in _FENCED:
            return FencedError(
                f"{self.transactional_id!r} was taken over by a newer owner ({reason.str()}): nothing was written. "
                "Give up the task and read the newest assignment."
            )
        if reason.code() == KafkaError.INVALID_TIMESTAMP:
            return InstanceError(
                f"The brokers refuse the records of {self.transactional_id!r} for their time ({reason.str()}): the "
                "clock of this host differs from theirs by more than message.timestamp.after.max.ms (an hour, unless "
                "the topic says otherwise). Nothing was written. Set the clock."
            )
        return BrokerUnreachableError(
            f"The transaction of {self.transactional_id!r} did not end ({reason.name()}: {reason.str()}): check that "
            "the brokers answer. The task is owned again and goes on from its last commit."
        )
