"""What an error of librdkafka means here, and why the connections of a client fail, in few words."""

from __future__ import annotations

import logging
import re
import socket
import ssl
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
from airflow_provider.kafka.connection import KafkaConnection

_TIMEOUT_S: Final = 2.0
_CUT: Final = KafkaError(KafkaError._LOG_TRUNCATION).str()  # noqa: SLF001
"""What librdkafka says where a leader's epochs show that the log was cut before its position (KIP-320)."""
_CUT_AT: Final = re.compile(r"broker end offset is (-?\d+)")
_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_OTHER_NAME: Final = frozenset({62, 64})
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21, 27})


def certificate_problem(host: str, port: int, ca_location: str | None) -> str | None:
    """Why the certificate that is shown at an address is refused, and what to do, found out by another handshake.

    Args:
        ca_location: PEM file of the authorities that the client trusts; None for the system's.

    Returns:
        None where the certificate is fine now, or nobody answers.
    """
    try:
        trusting = ssl.create_default_context(cafile=ca_location)
        with (
            socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain,
            trusting.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        # The numbers are OpenSSL's (X509_V_ERR_...).
        return _advice(f"The certificate of {host}:{port}", error.verify_code, error.verify_message, ca_location)
    except (OSError, ValueError):
        return None


def _advice(whose: str, code: int, message: str, ca_location: str | None) -> str:
    if code == _EXPIRED:
        return f"{whose}, or one of those that signed it, has expired: renew it on the broker, and have it read it."
    if code == _NOT_YET_VALID:
        return f"{whose} is not valid yet: compare the clock of this host with the broker's, and then its dates."
    if code in _OTHER_NAME:
        return (
            f"{whose} is for another name: name the broker as its certificate does, in bootstrap_servers and in the "
            f"broker's advertised.listeners, or have one made for this name ({message})."
        )
    if code in _UNKNOWN_AUTHORITY:
        trusted = f"those of {ca_location}" if ca_location else "the system's"
        return (
            f"{whose} is signed by an authority that is not among {trusted}: set ssl_ca_location to a PEM file with "
            f"that authority ({message})."
        )
    return f"{whose} is refused ({message}): correct it on the broker."


log = logging.getLogger(__name__)

_AGAIN_S: Final = 60.0
_STATE: Final = re.compile(r" \(after \d+ms in state .*$")
_BROKER: Final = re.compile(r"\w+://\[?(?P<host>[^/\]]+?)\]?:(?P<port>\d+)/")
_CERTIFICATE: Final = "certificate verify failed"
_ALERT: Final = re.compile(r"alert .*(certificate|unknown ca|handshake failure)")


class ConnectionErrors:
    """An ``error_cb`` of a client: keeps the newest reason, and logs each reason once a minute.

    A client calls it while it is polled, from the thread that polls.

    Args:
        logs: whether to log; of a process's many clients one is enough.
    """

    def __init__(self, connection: KafkaConnection, logs: bool = True) -> None:
        self._connection, self._logs = connection, logs
        self._logged: dict[str, float] = {}
        self._last, self._at = "", 0.0
        self._refused = False

    def __call__(self, error: KafkaError) -> None:
        """Take one of the client's errors."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # says less than what came before it
            return
        self._last, self._at = _STATE.sub("", error.str()), time.monotonic()
        self._refused = error.code() == KafkaError._AUTHENTICATION
        reason, now = self._last, self._at
        if self._logs and now - self._logged.get(reason, -_AGAIN_S) >= _AGAIN_S:
            self._logged[reason] = now
            log.warning("no connection to Kafka, tried again without end: %s", self._advice() or reason)

    @property
    def known(self) -> bool:
        """Whether a connection failed of late."""
        return bool(self._last) and time.monotonic() - self._at <= _AGAIN_S

    def because(self, otherwise: str) -> str:
        """The newest reason behind what a request said, for an error's text; the latter alone where there is none."""
        if not self.known:
            return otherwise
        return f"{otherwise}; {self._advice() or self._last}"

    def unreachable(self, what: str, otherwise: str, way_out: str) -> BrokerUnreachableError:
        """The error for a request that was not answered; `LoginRefusedError` where a broker refuses who comes.

        Args:
            what: was not answered.
            otherwise: what the request said, where no connection says more.
            way_out: what to do, where the reason does not say it itself.
        """
        if (advice := self._advice()) is None:
            return BrokerUnreachableError(f"{what} ({self.because(otherwise)}): {way_out}")
        return (LoginRefusedError if self._refused else BrokerUnreachableError)(f"{what}. {advice}")

    def _advice(self) -> str | None:
        """The newest reason with what to do about it; None where there is none, or it speaks for itself."""
        of = self._connection
        if not self.known:  # it may have connected since
            return None
        if self._refused:
            return (
                f"The login of {of.sasl_username!r} by {of.sasl_mechanism} is refused ({self._last}): correct user "
                "name, password and SASL mechanism on the connection, and see that the user may log in."
            )
        if _CERTIFICATE in self._last and (broker := _BROKER.match(self._last)) is not None:
            return certificate_problem(broker["host"], int(broker["port"]), of.ssl_ca_location)
        if _ALERT.search(self._last):
            return (
                f"The broker refuses the certificate of this client, or that it shows none ({self._last}): set "
                "ssl_certificate_location and ssl_key_location to one that is valid now and that an authority signed "
                "which the brokers trust."
            )
        return None


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
    if error is None:
        return None
    return damage_at(f"Offset {event.offset()} of {event.topic()}[{event.partition()}]", error)


def damage_at(where: str, error: KafkaError) -> TopicDamagedError | None:
    """The same, of an error that came at a place, to begin the message with."""
    if error.code() != KafkaError._BAD_MSG:
        return None
    return TopicDamagedError(
        f"{where} is damaged ({error.str()}): the broker that leads the partition does not hold what was written, and "
        "nothing from there on is read. Let another replica lead it, and have this broker copy the partition again; "
        "see 'A topic is damaged' in the runbook."
    )


def is_cut(error: KafkaError) -> bool:
    """Whether a client says of a position that a new leader lacks records before it; others may lie there by now."""
    return _CUT in error.str()


def cut_at(error: KafkaError) -> int | None:
    """Where the log of that leader ends, below zero where it has nothing of it; None for any other error.

    The text is all that has it.
    """
    found = _CUT_AT.search(error.str()) if is_cut(error) else None
    return None if found is None else int(found[1])


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
