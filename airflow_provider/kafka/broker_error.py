"""What an error of librdkafka means here."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ClusterMetadata

from airflow_provider.errors import (
    AccessError,
    BrokerUnreachableError,
    ConfigurationError,
    LoginRefusedError,
    StatefulStreamsError,
    TopicDamagedError,
    TopicMismatchError,
    TopicMissingError,
)

_RIGHTS: Final = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Create on the topics that are to be made, or on the cluster",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Read on the consumer group that is named as the application",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "Describe and DescribeConfigs on its topics, Read on those that it reads, Write on those that it writes, "
        "Create on those that are to be made, and Delete on those whose records it deletes"
    ),
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "Describe and Write on the transactional ids that begin with the application's id and '-'"
    ),
}
"""By what the brokers answer, what the connection's user lacks at least one of."""
_UNAUTHENTICATED: Final = frozenset({KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION})
_REFUSED: Final = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_REQUEST,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
    }
)
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_MISSING: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
_RIGHTS_S: Final = 5.0


def refusal(error: KafkaError, what: str, needed: str | None = None) -> AccessError | None:
    """The error where the brokers refuse something for want of a right, which no try gets past until it is granted.

    Args:
        what: what was asked for, to begin the message with.
        needed: the rights without which it cannot be done, and on what; None where that may be any of an
            application's. A right that is granted to no purpose is one to do harm with.

    Returns:
        None for any other error.
    """
    code, why = error.code(), f"{error.name()}: {error.str()}"
    if (rights := _RIGHTS.get(code)) is not None:
        return AccessError(
            f"{what} is not authorized ({why}): grant the connection's user {needed or rights} ('Rights' in "
            "docs/security.md has all that an application needs), then start again."
        )
    return None


def refusal_to_describe(metadata: ClusterMetadata, topic: str, what: str) -> AccessError | None:
    """The error where a topic is only unknown because the connection's user may not describe it.

    Where librdkafka is asked for the end of a partition, it says the same of both.

    Args:
        metadata: as the brokers gave it for this topic by name.
    """
    found = metadata.topics.get(topic)
    return None if found is None or found.error is None else refusal(found.error, what)


def refused_topic(consumer: Consumer, topic: str, what: str, timeout_s: float) -> AccessError | None:
    """The same, asked of the brokers; None also where they do not answer."""
    try:
        return refusal_to_describe(consumer.list_topics(topic, timeout=timeout_s), topic, what)
    except KafkaException:
        return None


def lacking(config: Mapping[str, Any], operation: AclOperation, topics: Collection[str]) -> list[str]:
    """Those of some topics on which a client's user may not do something, or that it may not even see, sorted.

    Args:
        topics: their names; those of which no answer came are not returned.
    """
    admin = AdminClient(dict(config))  # which has to live until it has answered
    asked = admin.describe_topics(
        TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=_RIGHTS_S
    )
    found = []
    for topic, answer in asked.items():
        try:
            operations = answer.result(2 * _RIGHTS_S).authorized_operations
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                found.append(topic)
        except TimeoutError:
            continue
        else:
            if operations is not None and not {operation, AclOperation.ALL} & set(operations):
                found.append(topic)
    return found


def damage(event: Message) -> TopicDamagedError | None:
    """The error where a record came from the brokers without the checksum that was written with it (``check.crcs``).

    Args:
        event: of a consumer, which stands still there.

    Returns:
        None for any other event, and for a record.
    """
    error = event.error()
    if error is None or error.code() != KafkaError._BAD_MSG:
        return None
    return TopicDamagedError(
        f"Offset {event.offset()} of {event.topic()}[{event.partition()}] is damaged ({error.str()}): the broker that "
        "leads the partition does not hold what was written, and nothing from there on is read. Let another replica "
        "lead it, and have this broker copy the partition again; see 'A topic is damaged' in the runbook."
    )


def broker_error(error: KafkaError, what: str, otherwise: str, needed: str | None = None) -> StatefulStreamsError:
    """The error of this package for one of the brokers or of librdkafka.

    Args:
        otherwise: what to do where no broker answered.
    """
    if (refused := refusal(error, what, needed)) is not None:
        return refused
    code, why = error.code(), f"{error.name()}: {error.str()}"
    if code in _UNAUTHENTICATED:
        return LoginRefusedError(
            f"{what} failed to log in ({why}): correct user name, password and SASL mechanism on the connection."
        )
    if code in _REFUSED:
        return ConfigurationError(f"{what} was refused by the brokers ({why}): change the setting that they name.")
    if code == KafkaError.TOPIC_EXCEPTION:
        return TopicMismatchError(
            f"{what} was refused by the brokers because of the topic's name ({why}): choose another name. Names that "
            "differ only in '.' and '_' collide."
        )
    if code in _TOO_LARGE:
        return ConfigurationError(
            f"{what} has a record that the brokers refuse as too large ({why}), although it was within the "
            "max.message.bytes of its topic when this instance started: set the topic's max.message.bytes back, or "
            "deploy the instance again so that it reads the new one."
        )
    if code in _MISSING:
        return TopicMissingError(
            f"{what} found no such topic or partition ({why}): find out who deleted it before you create it again."
        )
    if code in LEADER_CHANGES:
        return BrokerUnreachableError(
            f"{what} got no answer of a leader ({why}): a partition has none yet, or none any more. Check that all "
            "brokers run ('kafka-topics.sh --describe --unavailable-partitions' names those without), and try again."
        )
    return BrokerUnreachableError(f"{what} got no answer ({why}): {otherwise}")


Answer = TypeVar("Answer")

LEADER_CHANGES: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,  # its leader is not known to librdkafka
    }
)
"""Said while a topic is new, a broker of several restarts, or partitions are moved: another broker leads soon, or this
one does. Java's clients take them for retriable, too; librdkafka hands them over where offsets are asked for."""
_ASK_AGAIN: Final = LEADER_CHANGES | {KafkaError._TRANSPORT}
_PAUSE_S: Final = 0.1


def ask_leader(ask: Callable[[float], Answer], timeout_s: float) -> Answer:
    """The answer of the broker that leads a partition, asked again for as long as the leader changes.

    Args:
        ask: one request; called with the seconds that are left. It raises `KafkaException`.

    Raises:
        KafkaException: of the last try, where the time is over, or it says something else.
    """
    deadline = time.monotonic() + timeout_s
    left_s = timeout_s
    while True:
        try:
            return ask(left_s)
        except KafkaException as error:
            left_s = deadline - time.monotonic() - _PAUSE_S
            if left_s <= 0 or error.args[0].code() not in _ASK_AGAIN:
                raise
        time.sleep(_PAUSE_S)
