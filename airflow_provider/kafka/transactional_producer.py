"""A transactional producer that begins no transaction while a request of the one before may still be on its way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer


def flush(producer: Producer, timeout_s: float) -> int:
    """Send what is queued, and call the callbacks; returns how many records are still queued.

    A fatal error is raised by the client while it calls a callback, which then fails with a `SystemError` that says
    nothing. An idempotent producer has one where its user may write to no topic at all: the brokers give it no id.

    Raises:
        KafkaException: a fatal error.
    """
    try:
        return producer.flush(timeout_s)
    except (KafkaException, SystemError) as error:
        cause = error if isinstance(error, KafkaException) else error.__cause__
        if not isinstance(cause, KafkaException):
            raise
        if cause.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, cause.args[0].str(), fatal=True)
            raise KafkaException(refused) from error
        raise cause from None


class DeliveryErrors(list[KafkaError]):
    """An ``on_delivery`` of records: why those were not stored that were not."""

    def __call__(self, error: KafkaError | None, _: Message) -> None:
        """Called by the client."""
        if error is not None:
            self.append(error)


_SILENT: Final = frozenset({KafkaError._FATAL, KafkaError._STATE})
"""What a client says of a transaction in which an earlier request, made in its background, failed."""
_BACKOFF_MS: Final = 1_000
_JITTER: Final = 0.2
_ONCE_S: Final = _BACKOFF_MS * (1 - _JITTER) / 1000
"""An end that took less was asked for once: librdkafka repeats no request earlier than this after the first."""


class TransactionalProducer:
    """Begins, commits and aborts; knows whether a further transaction may follow on the same producer.

    The request that ends a transaction is sent again by librdkafka after a broken connection, and the first one, late,
    ends whatever is open then: so a transaction is only begun while it is certain that the end of the last one was sent
    once (``docs/protocol.md``, "Kafka's own transactions"). Its time proves it: an end that was answered within
    `_ONCE_S` was not repeated, through `rd_kafka_broker_buf_retry` alone (rdkafka_broker.c, read at 2.15; that the
    client which is installed repeats none earlier is tested). Statistics count requests too, but come at an interval;
    and librdkafka tells neither its error callback nor its log of every broken connection. After one that took longer,
    or failed, the producer is not `reusable`: the next transaction needs another, whose `fence` raises the epoch.

    Args:
        config: of the client, without what this class sets: ``transactional.id`` and how long requests are put off.
        transactional_id: one at a time of all producers with this id can write.
        topic: that exists, and that the client may ask about: see `fence`.
        timeout_s: deadline of each request.
    """

    def __init__(
        self, config: Mapping[str, Any], transactional_id: str, topic: str, timeout_s: float, **more: Any
    ) -> None:
        self.client = Producer(
            {
                **config,
                "transactional.id": transactional_id,
                # Both are needed for the proof. Where nothing fails they cost nothing, as long as the offsets are sent
                # after the records (`flush`): until the last transaction's markers are written the coordinator refuses
                # an AddOffsets that opens the next, and that is one of the requests that are put off.
                "retry.backoff.ms": _BACKOFF_MS,
                "retry.backoff.max.ms": _BACKOFF_MS,
                # Half of it passes before the first connection to a coordinator (seen with 2.16), so a takeover waits
                # for it; others have more (`KafkaConnection.to_client_config`).
                "reconnect.backoff.ms": 100,
            },
            **more,
        )
        self._topic, self._timeout_s = topic, timeout_s
        self._ended_once = True

    @property
    def reusable(self) -> bool:
        """Whether another transaction may be begun: no request that could end it is on its way."""
        return self._ended_once

    def fence(self) -> None:
        """Fence every earlier producer of the same id, and abort what it left open.

        Raises:
            KafkaException: the coordinator did not answer in time; it can be tried again.
        """
        # The first answer makes the client leave the bootstrap server's connection; the second comes through the one it
        # goes on with. Without it the search for the coordinator waits half a second more, one time of three.
        for _ in range(2):
            self.client.list_topics(self._topic, self._timeout_s)
        self.client.init_transactions(self._timeout_s)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            RuntimeError: it is not `reusable`.
            KafkaException: the client refuses.
        """
        if not self._ended_once:
            raise RuntimeError(
                "The last transaction's end may have been sent twice, and the first may come late: no transaction is "
                "begun on this producer. Make another and fence."
            )
        self.client.begin_transaction()

    def flush(self) -> None:
        """Wait until the brokers have the records.

        Raises:
            KafkaException: they did not take them in time, or never will.
        """
        if left := flush(self.client, self._timeout_s):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{left} records were not taken in time"))

    def commit(self) -> None:
        """Commit, and find out whether the producer is `reusable`.

        Raises:
            KafkaException: as the client does; the outcome may be unknown.
        """
        self.flush()  # the records' time is none of the end's
        with self._ending():
            self.client.commit_transaction(self._timeout_s)

    def abort(self) -> None:
        """Abort, and find out whether the producer is `reusable`.

        Raises:
            KafkaException: as the client does; the next producer's `fence` aborts what is open.
        """
        with self._ending():
            self.client.abort_transaction(self._timeout_s)

    def cause(self, error: KafkaException) -> KafkaException:
        """Why the client refuses everything, where all that it says is that it does: a new transaction is told why."""
        if error.args[0].code() in _SILENT:
            try:
                self.client.begin_transaction()
            except KafkaException as cause:
                return cause
        return error

    @contextmanager
    def _ending(self) -> Iterator[None]:
        before, self._ended_once = self._ended_once, False
        began = time.monotonic()
        yield
        # An abort may be quick after a commit that failed, whose end is still on its way.
        self._ended_once = before and time.monotonic() - began < _ONCE_S
