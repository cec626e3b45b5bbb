"""Topics of a cluster: created with the right settings, or verified before anything is processed."""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from airflow_provider.common.clock import wait_until
from airflow_provider.errors import (
    BrokerUnreachableError,
    StatefulStreamsError,
    TopicMismatchError,
    TopicMissingError,
)
from airflow_provider.kafka.broker_error import LEADER_CHANGES, ConnectionErrors, ask_leader, broker_error, refusal
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_findings import mismatch
from airflow_provider.kafka.topic_spec import TopicDescription, TopicSpec

_IF_MISSING: Final = (
    "Create it if it is a source, sink or dead-letter topic; run CreateChangelogTopicsOperator, or 'stateful-streams "
    "topics repair JOB.py --apply', if the application is new, or if its job has a stage more than before. If it is "
    "the changelog of an application that ran before, its stores are all that is left of the state: do not create it, "
    "stop the instances and follow 'Changelog missing or mismatched' in the runbook."
)

_Answer = TypeVar("_Answer")

_LOOK_S: Final = 0.05
_LATE_S: Final = 5.0
"""A request ends at its own timeout, which is not to be overtaken by the wait for it."""


def _answer(future: Future[_Answer], timeout_s: float) -> _Answer:
    """What a request that ends after `timeout_s` came to."""
    try:
        return future.result(timeout_s + _LATE_S)
    except TimeoutError as error:  # on a host that gives the client's thread no time
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error


class TopicAdmin:
    """Creates, verifies and describes topics of one cluster.

    Raises:
        BrokerUnreachableError: by every method: no broker answered in time.
    """

    def __init__(self, connection: KafkaConnection, timeout_s: float = 10.0) -> None:
        self._connection, self._timeout_s = connection, timeout_s
        self._errors = ConnectionErrors(connection, logs=False)
        config: dict[str, Any] = {"socket.timeout.ms": max(1000, int(timeout_s * 1000)), "error_cb": self._errors}
        self._config = connection.to_client_config() | config
        self._admin = AdminClient(self._config)

    def describe(self, name: str) -> TopicDescription | None:
        """The topic as it is, or None when there is none.

        Raises:
            ConfigurationError: the connection's user may not describe it, so whether there is one is not known.
        """
        try:
            # Without a name: asking for one topic would create it where the brokers allow that.
            metadata = self._admin.list_topics(timeout=self._timeout_s).topics.get(name)
            if metadata is None:
                self._require_right_to_see(name)
                return None
            resource = ConfigResource(ResourceType.TOPIC, name)
            futures = self._admin.describe_configs([resource], request_timeout=self._timeout_s)
            entries: Mapping[str, ConfigEntry] = _answer(futures[resource], self._timeout_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._typed(error, f"Describing topic {name!r}") from error
        return TopicDescription(
            name=name,
            partitions=len(metadata.partitions),
            replication_factor=min((len(p.replicas) for p in metadata.partitions.values()), default=0),
            config={entry.name: str(entry.value) for entry in entries.values()},
        )

    def names(self) -> frozenset[str]:
        """Of all topics of the cluster."""
        try:
            return frozenset(self._admin.list_topics(timeout=self._timeout_s).topics)
        except KafkaException as error:
            raise self._typed(error, "Listing the topics") from error

    def brokers(self) -> int:
        """How many answer for the cluster."""
        try:
            return len(self._admin.list_topics(timeout=self._timeout_s).brokers)
        except KafkaException as error:
            raise self._typed(error, "Listing the brokers") from error

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics, one after the other, each only when the one before it is gone. One that is not there is left.

        Raises:
            BrokerUnreachableError: no broker answered, or one was not gone in time.
            StatefulStreamsError: the brokers refuse it.
        """
        for name in names:
            future = self._admin.delete_topics([name], operation_timeout=self._timeout_s)[name]
            try:
                _answer(future, self._timeout_s)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._typed(error, f"Deleting topic {name!r}") from error
            if not wait_until(functools.partial(self._is_gone, name), self._timeout_s, _LOOK_S):
                raise BrokerUnreachableError(
                    f"Topic {name!r} was deleted but is still known to the brokers after {self._timeout_s:g} s: check "
                    "that all of them answer, and try again."
                )

    def _is_gone(self, name: str) -> bool:
        return name not in self.names()

    def ids(self, names: Sequence[str]) -> Mapping[str, str]:
        """By name, what the brokers call the topic: another id means another topic.

        Raises:
            TopicMissingError: there is no such topic.
        """
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout_s)
        try:
            return {name: str(_answer(future, self._timeout_s).topic_id) for name, future in futures.items()}
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissingError(
                    f"One of the topics {', '.join(names)} does not exist at {self._connection.bootstrap_servers}: "
                    "find out why it was deleted before you create it again."
                ) from error
            raise self._typed(error, f"Describing the topics {', '.join(names)}") from error

    def earliest_offsets(self, name: str, partitions: Collection[int]) -> Mapping[int, int]:
        """By partition of a topic, the first offset that its log still has.

        Raises:
            TopicMissingError: there is no such topic or partition.
        """
        return self._offsets(name, partitions, OffsetSpec.earliest(), "first")  # type: ignore[no-untyped-call]

    def latest_offsets(self, name: str, partitions: Collection[int], committed: bool = False) -> Mapping[int, int]:
        """By partition of a topic, the offset after the last record that its log has, committed or not.

        Args:
            committed: to ask for the offset before which no transaction is open, which is no greater.

        Raises:
            TopicMissingError: there is no such topic or partition.
        """
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return self._offsets(name, partitions, latest, "last", level)

    def _offsets(
        self,
        name: str,
        partitions: Collection[int],
        spec: OffsetSpec,
        which: str,
        level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Mapping[int, int]:
        asked = {TopicPartition(name, number): spec for number in partitions}

        def ask(left_s: float) -> Mapping[int, int]:
            try:
                futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=left_s)
                return {at.partition: _answer(future, left_s).offset for at, future in futures.items()}
            except KafkaException as error:
                self._admin.poll(0)  # hands over why its connections failed
                if error.args[0].code() == KafkaError._NOENT:  # said too of what may not be seen
                    self._require_right_to_see(name)
                # One that lists offsets asks for a leader's epoch as it learned it first, for minutes after it ended.
                self._admin = AdminClient(self._config)
                raise

        try:
            return ask_leader(ask, self._timeout_s)
        except KafkaException as error:
            raise self._typed(error, f"Asking for the {which} offsets of {name!r}") from error

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Delete the records of a topic's partitions before an offset; no reader gets them any more.

        Args:
            before: by partition, the first offset that is kept.

        Raises:
            TopicMissingError: there is no such topic or partition.
            StatefulStreamsError: the brokers refuse it.
        """
        asked = [TopicPartition(name, partition, offset) for partition, offset in before.items()]
        futures = self._admin.delete_records(asked, request_timeout=self._timeout_s)
        try:
            for future in futures.values():
                _answer(future, self._timeout_s)
        except KafkaException as error:
            raise self._typed(error, f"Deleting what was processed of topic {name!r}") from error

    def partitions(self, name: str, if_missing: str = "Create it, or correct its name.") -> int:
        """How many partitions a topic has.

        Args:
            if_missing: what a person does where it does not exist.

        Raises:
            TopicMissingError: there is no such topic.
        """
        found = self.describe(name)
        if found is None:
            raise TopicMissingError(
                f"Topic {name!r} does not exist at {self._connection.bootstrap_servers}. {if_missing}"
            )
        return found.partitions

    def verify(self, specs: Iterable[TopicSpec]) -> Mapping[str, TopicDescription]:
        """By name, the topics as they are; raise unless each exists as specified.

        Raises:
            TopicMissingError: one does not exist.
            TopicMismatchError: one exists otherwise; the message says what differs and what to do.
        """
        verified = {}
        for spec in specs:
            found = self.describe(spec.name)
            if found is None:
                raise TopicMissingError(
                    f"Topic {spec.name!r} does not exist at {self._connection.bootstrap_servers}. "
                    + (spec.if_missing or _IF_MISSING)
                )
            self._check(spec, found)
            verified[spec.name] = found
        return verified

    def ensure(self, specs: Iterable[TopicSpec]) -> tuple[str, ...]:
        """Create what is missing, and return its names; verify what exists, and alter nothing of it.

        Raises:
            TopicMismatchError: one exists otherwise than specified.
        """
        created = []
        for spec in specs:
            found = self.describe(spec.name)
            if found is None:
                if self._create(spec):
                    created.append(spec.name)
                found = self._wait_for(spec.name)
            self._check(spec, found)
        return tuple(created)

    def alter_setting(self, topic: str, name: str, value: str) -> None:
        """Give a topic a setting, and leave its others as they are.

        Raises:
            StatefulStreamsError: the brokers refuse it.
        """
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        try:
            futures = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_s)
            _answer(futures[resource], self._timeout_s)
        except KafkaException as error:
            raise self._typed(error, f"Setting {name}={value} of topic {topic!r}") from error
        # A broker answers before its own metadata says so.
        deadline = time.monotonic() + self._timeout_s
        while (found := self.describe(topic)) is not None and found.config.get(name) != value:
            if time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    f"Topic {topic!r} was given {name}={value} and has {found.config.get(name)} after "
                    f"{self._timeout_s:g} s: check that all brokers answer."
                )
            time.sleep(_LOOK_S)

    def _require_right_to_see(self, name: str) -> None:
        """Raise where a topic is not among those that are listed because the connection's user has no right to it."""
        asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=self._timeout_s)
        try:
            _answer(asked[name], self._timeout_s)
        except KafkaException as error:
            what = f"Describing topic {name!r} at {self._connection.bootstrap_servers}"
            if (refused := refusal(error.args[0], what)) is not None:
                raise refused from error

    def _create(self, spec: TopicSpec) -> bool:
        new = NewTopic(
            spec.name,
            num_partitions=spec.partitions or 1,
            replication_factor=spec.replication_factor or -1,
            config=dict(spec.config),
        )
        try:
            _answer(self._admin.create_topics([new], operation_timeout=self._timeout_s)[spec.name], self._timeout_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise self._typed(error, f"Creating topic {spec.name!r}") from error
        return True

    def _wait_for(self, name: str) -> TopicDescription:
        """The topic as it is, once a broker says so: of several, each learns of it in its own time."""
        found = wait_until(lambda: self.describe(name), self._timeout_s, _LOOK_S)
        if found is None:
            raise BrokerUnreachableError(
                f"Topic {name!r} was created but is not known to the brokers after {self._timeout_s:g} s: check "
                "that all of them answer."
            )
        return found

    def _check(self, spec: TopicSpec, found: TopicDescription) -> None:
        if (why := mismatch(spec, found)) is not None:
            raise TopicMismatchError(f"Refused to use a topic: {why}")

    def _typed(self, error: KafkaException, what: str) -> StatefulStreamsError:
        self._admin.poll(0)  # hands over why its connections failed
        what = f"{what} at {self._connection.bootstrap_servers}"
        way_out = "check the address, the security protocol, and that they answer."
        found = broker_error(error.args[0], what, way_out)
        if type(found) is not BrokerUnreachableError or error.args[0].code() in LEADER_CHANGES:
            return found
        within = f"{error.args[0].name()}: {error.args[0].str()}, within {self._timeout_s:g} s"
        return self._errors.unreachable(f"{what} got no answer", within, way_out)
