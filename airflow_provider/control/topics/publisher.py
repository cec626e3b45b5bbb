"""The one writer of assignments: fenced, so that two runs of a DAG cannot both win."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.codec import claim_key, to_key, to_value, topic_of
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView, outdated
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.errors import AccessError, AssignmentError, BrokerUnreachableError, FencedError
from airflow_provider.kafka.broker_error import ConnectionErrors, refusal
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, history_topic, publisher_transactional_id, status_topic
from airflow_provider.kafka.transactional_producer import TransactionalProducer

# UNKNOWN is what Kafka 4.3 answers to an end of transaction while a newer publisher is just being let in: the broker
# refuses it with an IllegalStateException ("... already a pending state PREPARE_EPOCH_FENCE") and aborts it.
_FENCED = frozenset(
    {
        KafkaError._FATAL,  # says no more than that an earlier call of the same transaction was refused for good
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.UNKNOWN,
    }
)

_ASSIGNMENT = b"assignment"
_Beside = IncidentRecord | Deployment | InstanceStatus | Command | InjectedFault | HistoryRecord


class AssignmentPublisher:
    """Publishes the next generation, or fails because a newer publisher does.

    The order is the guarantee:

    1. ``init_transactions`` fences every earlier publisher;
    2. read the control topics to their end: no other can add a generation to what is read now;
    3. decide from that view (the caller);
    4. publish in one transaction with the records that explain it.

    A publisher that was fenced between 1 and 4 gets `FencedError`, has written nothing, and reads again.

    Raises:
        AssignmentError: the newest assignment cannot be read.
    """

    def __init__(self, connection: KafkaConnection, application_id: str, timeout_s: float = 10.0) -> None:
        self._application_id = application_id
        errors = ConnectionErrors(connection, logs=False)
        self._producer = TransactionalProducer(
            connection.to_client_config()
            | {
                "error_cb": errors,
                "transaction.timeout.ms": 30_000,
                "linger.ms": 0,
                "client.id": f"{application_id}-publisher",
            },
            publisher_transactional_id(application_id),
            assignment_topic(application_id),
            timeout_s,
            logger=PUBLISHER_LOG,
        )
        try:
            self._producer.fence()
            self._hand_over()
        except KafkaException as error:
            if (refused := _refusal(error, application_id)) is not None:
                raise refused from error
            self._hand_over()
            what = (
                f"The transaction coordinator of {connection.bootstrap_servers} did not answer within {timeout_s:g} s"
            )
            raise errors.unreachable(what, error.args[0].str(), "check that the brokers answer.") from error
        with ControlReader(connection, application_id) as reader:
            self.view: ControlView = reader.read_to_end(timeout_s)
        if (why := self.view.unreadable.get(_ASSIGNMENT)) is not None:
            raise AssignmentError(
                f"The newest assignment of {application_id!r} cannot be read ({why}), so no newer one is published: "
                f"a newer version or another program wrote it into {assignment_topic(application_id)}. Use that "
                "version, or write a valid record under the same key."
            )

    def publish(self, assignment: Assignment | None, *beside: _Beside) -> None:
        """Publish a generation together with the records that belong to it, all or nothing.

        Nothing of it goes into ``<app>-status``: a publisher that stands still in its transaction hides no heartbeat.

        Args:
            assignment: the next generation; None publishes the records alone.
            beside: the incidents that are answered; a deployment; a status, which claims the launch of its process; a
                command, the fault that it injects, and what the history keeps of that, for the history's topic, which
                has to exist.

        Raises:
            AssignmentError: the generation is not the one after the newest.
            FencedError: a newer publisher exists. Nothing was written.
        """
        newest = self.view.assignment.generation if self.view.assignment else 0
        if assignment is not None and assignment.generation <= newest:
            raise AssignmentError(
                f"Generation {assignment.generation} of {self._application_id!r} does not follow the newest, {newest}: "
                "decide again from the newest view."
            )
        if not self._producer.reusable:
            raise FencedError(
                f"The last publication for {self._application_id!r} took so long that its end may come a second time: "
                "nothing more is published by this one. Read the newest assignment and decide again."
            )
        try:
            self._producer.begin()
            if assignment is not None:
                self._produce(assignment)
            for value in beside:
                self._produce(value)
            self._producer.commit()
        except KafkaException as raised:
            error = self._producer.cause(raised)
            if (refused := _refusal(error, self._application_id)) is not None:
                raise refused from error
            if error.args[0].code() in _FENCED or error.args[0].fatal():
                raise FencedError(
                    f"A newer publisher of assignments of {self._application_id!r} took over; nothing was written. "
                    "Read the newest assignment and decide again."
                ) from error
            raise BrokerUnreachableError(
                f"Publishing generation {assignment.generation if assignment else '-'} of {self._application_id!r} "
                f"did not end ({error.args[0].str()}): read the newest assignment to see whether it took effect."
            ) from error
        finally:
            self._hand_over()
        if assignment is not None:
            self.view.assignment = assignment

    def _hand_over(self) -> None:
        """Let the client hand over what it logged and why its connections failed.

        An error that is fatal comes as an exception of what polls next, and says no more than the call that it ended.
        """
        with suppress(KafkaException):
            self._producer.client.poll(0)

    def _produce(self, value: Assignment | _Beside) -> None:
        topic, key = topic_of(value, self._application_id), to_key(value)
        if isinstance(value, InstanceStatus):
            topic, key = assignment_topic(self._application_id), claim_key(value.instance)
        self._producer.client.produce(topic, to_value(value), key, partition=0)


def _refusal(error: KafkaException, application_id: str) -> AccessError | None:
    """With the rights that are needed here and no others: who may use every transactional id can fence every task."""
    topics = (assignment_topic(application_id), status_topic(application_id), history_topic(application_id))
    needed = f"Describe and Write on the topics {', '.join(topics)}"
    if error.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        needed = f"Describe and Write on the transactional id {publisher_transactional_id(application_id)!r}"
    return refusal(error.args[0], f"Publishing to {assignment_topic(application_id)}", needed)


_TAKEN_OVER: Final = "fenced by a newer instance"


def _is_trouble(record: logging.LogRecord) -> bool:
    return _TAKEN_OVER not in record.getMessage()


PUBLISHER_LOG: Final = logging.getLogger(__name__)
"""Drops that a newer publisher took over: it is a `FencedError`, after which is tried again, and no fatal error.

A client hands its lines over while it is polled.
"""

PUBLISHER_LOG.addFilter(_is_trouble)


T = TypeVar("T")

_TRIES: Final = 10
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
"""All of them take half a minute: longer than a command needs that another waits for on a busy host."""


class _WouldPublishError(Exception):
    """There is something to publish."""


class _Onlooker(AssignmentPublisher):
    """Has read as a publisher has, fences nobody, and ends what publishes."""

    def __init__(self, view: ControlView) -> None:
        self.view = view

    def publish(self, *_: object) -> None:
        """Ends the act.

        Raises:
            _WouldPublishError: always.
        """
        raise _WouldPublishError


def publish_by(
    connection: KafkaConnection, application_id: str, act: Callable[[AssignmentPublisher], T], *, look: bool = True
) -> T:
    """Let `act` read and publish; when another publisher takes over, let it read and publish again.

    A publisher fences every other by being there, one that has nothing to publish too. So `act` is first tried on what
    anybody can read, and where it publishes nothing no other is disturbed: commands in a loop starve no repair.

    What has outlived its use in the control topics (`airflow_provider.control.topics.view`) is removed after that;
    what is not removed in time is left for the next time.

    Args:
        look: whether it is tried first. False where it nearly always publishes, and where that would cost time.

    Raises:
        FencedError: others took over again and again.
        TopicMissingError: the application's topics do not exist.
    """
    if look:
        with ControlReader(connection, application_id) as reader:
            view = reader.read_to_end()
        with suppress(_WouldPublishError):
            return act(_Onlooker(view))

    def publish() -> T:
        publisher = AssignmentPublisher(connection, application_id)
        result = act(publisher)
        if gone := outdated(publisher.view, now_ms()):
            with ControlWriter(connection, application_id) as writer:
                for value in gone:
                    writer.forget(value)
        return result

    return retry_fenced(publish, application_id)


def retry_fenced(publish: Callable[[], T], application_id: str) -> T:
    """What `publish` returns, called until no other publisher took over while it ran, ten times at most.

    Args:
        publish: opens an `AssignmentPublisher`, which reads the newest state, and publishes what follows from it.

    Raises:
        FencedError: others took over again and again.
    """
    for tries in range(_TRIES):
        try:
            return publish()
        except FencedError:
            PUBLISHER_LOG.info("Another publisher took over for %s: reading the control topics again", application_id)
            # Each takes over from the other, so both have to let the other finish, for different times.
            time.sleep(random.uniform(0.5, 1.0) * min(_PAUSE_S * 2**tries, _LONGEST_PAUSE_S))
    raise FencedError(
        f"Other publishers of {application_id!r} took over {_TRIES} times: look for DAG runs and commands that act on "
        "it, then try again."
    )
