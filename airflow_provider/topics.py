"""Topics as this package needs them: created with the right settings, or verified before anything is processed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic, ResourceType

from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import BrokerUnreachableError, TopicMismatchError, TopicMissingError
from airflow_provider.names import assignment_topic, changelog_topic, status_topic

__all__ = ["TopicAdmin", "TopicDescription", "TopicSpec", "changelog_spec", "control_specs", "verdict"]


@dataclass(frozen=True)
class TopicSpec:
    """A topic as it has to be.

    Args:
        name: its name.
        partitions: exact number; None accepts any (only for topics that exist).
        replication_factor: at least this many replicas; None creates with the cluster's default and accepts any.
        config: settings to create it with.
        required: the settings among them that make it correct; others are a matter of taste and not verified.
    """

    name: str
    partitions: int | None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset({"cleanup.policy"})


@dataclass(frozen=True)
class TopicDescription:
    """A topic as it is.

    Args:
        name: its name.
        partitions: how many.
        replication_factor: the least number of replicas of a partition.
        config: its settings.
    """

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


def changelog_spec(
    application_id: str, store: str, partitions: int, replication_factor: int | None = None
) -> TopicSpec:
    """The changelog of a store: compacted, with deletions kept a day (``delete.retention.ms``, Kafka's default)."""
    return TopicSpec(
        changelog_topic(application_id, store),
        partitions,
        replication_factor,
        {
            "cleanup.policy": "compact",
            "delete.retention.ms": "86400000",
            "segment.bytes": str(256 << 20),
            "min.cleanable.dirty.ratio": "0.3",
            "compression.type": "producer",
            "message.timestamp.type": "CreateTime",
        },
    )


def control_specs(application_id: str, replication_factor: int | None = None) -> tuple[TopicSpec, TopicSpec]:
    """The assignment and the status topic: one partition each, small segments, the broker's clock.

    ``LogAppendTime`` because heartbeats of two hosts can be compared by one clock only.
    """
    config = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
        "segment.bytes": str(4 << 20),
        "segment.ms": "600000",
        "min.cleanable.dirty.ratio": "0.05",
        "delete.retention.ms": "86400000",
    }
    required = frozenset({"cleanup.policy", "message.timestamp.type"})
    names = (assignment_topic(application_id), status_topic(application_id))
    first, second = (TopicSpec(name, 1, replication_factor, config, required) for name in names)
    return first, second


def verdict(spec: TopicSpec, found: TopicDescription) -> str | None:
    """Why a topic cannot be used, or None when it can: what was found, what is needed, what to do."""
    if spec.partitions is not None and found.partitions != spec.partitions:
        return (
            f"topic {spec.name!r} has {found.partitions} partitions, {spec.partitions} are needed: a key would be "
            "looked for in another partition than it was stored in. Use a new application id, or recreate the topic."
        )
    if spec.replication_factor is not None and found.replication_factor < spec.replication_factor:
        return (
            f"topic {spec.name!r} has {found.replication_factor} replicas, {spec.replication_factor} are needed: "
            "raise its replication with kafka-reassign-partitions, or ask for fewer replicas."
        )
    for name in sorted(spec.required):
        wanted, has = spec.config.get(name), found.config.get(name)
        if wanted is not None and has != wanted:
            return (
                f"topic {spec.name!r} has {name}={has}, {wanted} is needed: without it records would be lost. "
                f"Set it with kafka-configs --alter --entity-type topics --entity-name {spec.name} "
                f"--add-config {name}={wanted}, after you know why it was changed."
            )
    return None


class TopicAdmin:
    """Creates, verifies and describes topics of one cluster.

    Args:
        connection: the cluster.
        timeout_s: for each request.
    """

    def __init__(self, connection: KafkaConnection, timeout_s: float = 10.0) -> None:
        self._connection, self._timeout_s = connection, timeout_s
        self._admin = AdminClient(
            connection.to_client_config() | {"socket.timeout.ms": max(1000, int(timeout_s * 1000))}
        )

    def describe(self, name: str) -> TopicDescription | None:
        """The topic as it is, or None when there is none.

        Raises:
            BrokerUnreachableError: no broker answered in time.
        """
        try:
            # Without a name: asking for one topic would create it where the brokers allow that.
            metadata = self._admin.list_topics(timeout=self._timeout_s).topics.get(name)
            if metadata is None:
                return None
            resource = ConfigResource(ResourceType.TOPIC, name)
            futures = self._admin.describe_configs([resource], request_timeout=self._timeout_s)
            entries: Mapping[str, ConfigEntry] = futures[resource].result(self._timeout_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._unreachable(error) from error
        return TopicDescription(
            name,
            len(metadata.partitions),
            min((len(p.replicas) for p in metadata.partitions.values()), default=0),
            {entry.name: str(entry.value) for entry in entries.values()},
        )

    def ids(self, names: Sequence[str]) -> Mapping[str, str]:
        """By name, what the brokers call the topic: another id means another topic.

        Raises:
            TopicMissingError: there is no such topic.
            BrokerUnreachableError: no broker answered in time.
        """
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout_s)
        try:
            return {name: str(future.result(self._timeout_s).topic_id) for name, future in futures.items()}
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissingError(
                    f"One of the topics {', '.join(names)} does not exist at {self._connection.bootstrap_servers}."
                ) from error
            raise self._unreachable(error) from error

    def partitions(self, name: str) -> int:
        """How many partitions a topic has.

        Raises:
            TopicMissingError: there is no such topic.
        """
        found = self.describe(name)
        if found is None:
            raise TopicMissingError(
                f"Topic {name!r} does not exist at {self._connection.bootstrap_servers}: create it, or mend its name."
            )
        return found.partitions

    def verify(self, specs: Iterable[TopicSpec]) -> None:
        """Raise unless every topic exists as specified.

        Raises:
            TopicMissingError: one does not exist.
            TopicMismatchError: one exists otherwise; the message says what differs and what to do.
        """
        for spec in specs:
            found = self.describe(spec.name)
            if found is None:
                raise TopicMissingError(
                    f"Topic {spec.name!r} does not exist at {self._connection.bootstrap_servers}: "
                    "run the create-changelog-topics operator for this application first."
                )
            if (why := verdict(spec, found)) is not None:
                raise TopicMismatchError(f"Refused to use a topic: {why}")

    def ensure(self, specs: Iterable[TopicSpec]) -> tuple[str, ...]:
        """Create what is missing and verify what exists; nothing that exists is altered.

        Returns:
            The names of the topics that were created.

        Raises:
            TopicMismatchError: one exists otherwise than specified.
            BrokerUnreachableError: no broker answered in time.
        """
        created = []
        for spec in specs:
            if self.describe(spec.name) is None and self._create(spec):
                created.append(spec.name)
                self._wait_for(spec.name)
            self.verify([spec])
        return tuple(created)

    def _create(self, spec: TopicSpec) -> bool:
        new = NewTopic(
            spec.name,
            num_partitions=spec.partitions or 1,
            replication_factor=spec.replication_factor or -1,
            config=dict(spec.config),
        )
        try:
            self._admin.create_topics([new], operation_timeout=self._timeout_s)[spec.name].result(self._timeout_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise self._unreachable(error) from error
        return True

    def _wait_for(self, name: str) -> None:
        # A broker answers "created" before every broker's metadata says so.
        deadline = time.monotonic() + self._timeout_s
        while self.describe(name) is None:
            if time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    f"Topic {name!r} was created but is not known to the brokers after {self._timeout_s:g} s: check "
                    "that all of them answer."
                )
            time.sleep(0.05)

    def _unreachable(self, error: KafkaException) -> BrokerUnreachableError:
        return BrokerUnreachableError(
            f"The brokers at {self._connection.bootstrap_servers} did not do what was asked within "
            f"{self._timeout_s:g} s ({error.args[0].str()}): check the address, the credentials and that they answer."
        )
