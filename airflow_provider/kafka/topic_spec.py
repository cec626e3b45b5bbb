"""Topics as this package needs them, and as they are: values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider.kafka.names import (
    assignment_topic,
    changelog_topic,
    commits_topic,
    history_topic,
    lookups_topic,
    metrics_topic,
    status_topic,
)

DELETE_RETENTION_MS: Final = 86_400_000
"""A day: Kafka's default of ``delete.retention.ms``, and this package's."""

MAX_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default of ``max.message.bytes``: the largest record batch that a topic takes."""

LOST_BETWEEN: Final = (
    "Do not create it: what one stage wrote into it and the next had not read is lost, and positions mean nothing in "
    "another topic of that name. Stop the instances. Then give the store behind it another name=, which begins with "
    "what comes from then on: 'stateful-streams topics repair JOB.py --apply', 'run' and 'assign', or the deploy DAG; "
    "or begin again at the source's start, under another application id or with a reset. See 'Changelog missing or "
    "mismatched' in the runbook."
)
"""What a person does where a topic between two stages is gone of an application that ran."""

DELETE_RETENTION: Final = "delete.retention.ms"
MIN_IN_SYNC: Final = "min.insync.replicas"


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """A topic as it has to be.

    Args:
        partitions: exact number; None accepts any (only for topics that exist).
        replication_factor: at least this many replicas; None creates with the cluster's default and accepts any.
        config: settings to create it with.
        required: the settings among them that make it correct; others are a matter of taste and not verified.
        if_missing: what a person does where it does not exist; None for what fits any topic.
        if_resized: what a person does where it has another number of partitions; None for what fits any topic.
    """

    name: str
    partitions: int | None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset({"cleanup.policy"})
    if_missing: str | None = None
    if_resized: str | None = None


@dataclass(frozen=True, kw_only=True)
class TopicDescription:
    """A topic as it is.

    Args:
        replication_factor: the least number of replicas of a partition.
    """

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    @property
    def delete_retention_ms(self) -> int:
        """How long it keeps deletions."""
        return int(self.config.get(DELETE_RETENTION, DELETE_RETENTION_MS))

    @property
    def max_message_bytes(self) -> int:
        """The largest record batch that it takes."""
        return int(self.config.get("max.message.bytes", MAX_MESSAGE_BYTES))


def _spec(
    name: str, partitions: int, replication_factor: int | None, config: Mapping[str, str], **more: Any
) -> TopicSpec:
    """Two replicas have to hold a commit where there are three, so that no single broker can lose it.

    The cluster's own default where its default of replicas is taken.
    """
    in_sync = {} if replication_factor is None else {MIN_IN_SYNC: str(max(1, min(2, replication_factor - 1)))}
    return TopicSpec(
        name=name, partitions=partitions, replication_factor=replication_factor, config={**config, **in_sync}, **more
    )


def changelog_spec(
    application_id: str,
    store: str,
    partitions: int,
    replication_factor: int | None = None,
    windowed: bool = False,
) -> TopicSpec:
    """The changelog of a store: compacted, with deletions kept as long as Kafka does by default.

    Args:
        windowed: whether its keys begin with a time. Then the owner has the brokers delete the log's beginning, which
            they do only where the policy has ``delete``; by their own clock they must delete nothing: they do not know
            which windows are open, and the last commit record may be old.
    """
    without_end = {"retention.ms": "-1", "retention.bytes": "-1"}
    expiry = {"cleanup.policy": "compact,delete", **without_end} if windowed else {}
    return _spec(
        changelog_topic(application_id, store),
        partitions,
        replication_factor,
        {
            "cleanup.policy": "compact",
            DELETE_RETENTION: str(DELETE_RETENTION_MS),
            "segment.bytes": str(256 << 20),
            "min.cleanable.dirty.ratio": "0.3",
            "compression.type": "producer",
            "message.timestamp.type": "CreateTime",
            **expiry,
        },
        required=frozenset({"cleanup.policy", *expiry}),
    )


def commits_spec(application_id: str, stage: int, partitions: int, replication_factor: int | None = None) -> TopicSpec:
    """Where the tasks of a stage without stores keep their commit records: compacted, one key in each partition."""
    return _spec(
        commits_topic(application_id, stage),
        partitions,
        replication_factor,
        {
            "cleanup.policy": "compact",
            DELETE_RETENTION: str(DELETE_RETENTION_MS),
            "segment.bytes": str(4 << 20),
            "segment.ms": "600000",
            "min.cleanable.dirty.ratio": "0.05",
            "message.timestamp.type": "CreateTime",
        },
    )


def repartition_spec(name: str, partitions: int, replication_factor: int | None = None) -> TopicSpec:
    """A topic between two stages: nothing in it grows too old, and what is processed is deleted by who processed it."""
    return _spec(
        name,
        partitions,
        replication_factor,
        {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            # Only whole segments are removed from the disk.
            "segment.bytes": str(50 << 20),
            "message.timestamp.type": "CreateTime",
        },
        required=frozenset({"cleanup.policy", "retention.ms", "retention.bytes"}),
        if_missing="It lies between two stages. If the application is new, or its job has a stage more than before, "
        f"run 'stateful-streams topics repair JOB.py --apply' or the deploy DAG. If it ran with it: {LOST_BETWEEN}",
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
        DELETE_RETENTION: str(DELETE_RETENTION_MS),
    }
    required = frozenset({"cleanup.policy", "message.timestamp.type"})
    names = (assignment_topic(application_id), status_topic(application_id))
    first, second = (_spec(name, 1, replication_factor, config, required=required) for name in names)
    return first, second


def history_spec(application_id: str, replication_factor: int | None = None) -> TopicSpec:
    """Where drills, failovers, restores and upgrades are remembered: for ever, and bounded in bytes.

    Compaction keeps the newest record of each event, so that a retry overwrites. No event ever becomes too old; only
    above ``retention.bytes``, some hundred thousand events, the brokers delete the oldest.
    """
    return _spec(
        history_topic(application_id),
        1,
        replication_factor,
        {
            "cleanup.policy": "compact,delete",
            "retention.ms": "-1",
            "retention.bytes": str(256 << 20),
            "segment.bytes": str(4 << 20),
        },
        required=frozenset({"cleanup.policy", "retention.ms"}),
    )


def metrics_spec(application_id: str, replication_factor: int | None = None) -> TopicSpec:
    """Where the figures of each minute are kept for a week, and bounded in bytes.

    Not compacted: the keys are few, and every record counts. ``LogAppendTime``, so that the records of all instances,
    and of one whose clock was set, lie on one time scale.
    """
    return _spec(
        metrics_topic(application_id),
        1,
        replication_factor,
        {
            "cleanup.policy": "delete",
            "retention.ms": str(7 * 86_400_000),
            "retention.bytes": str(256 << 20),
            "segment.bytes": str(16 << 20),
            "segment.ms": str(6 * 3_600_000),
            "message.timestamp.type": "LogAppendTime",
        },
    )


def lookups_spec(application_id: str, replication_factor: int | None = None) -> TopicSpec:
    """Where stores are asked for what they hold of a key: values of records lie in it, for minutes."""
    return _spec(
        lookups_topic(application_id),
        1,
        replication_factor,
        {
            "cleanup.policy": "delete",
            "retention.ms": "60000",
            "segment.ms": "600000",
            "segment.bytes": str(16 << 20),
            "message.timestamp.type": "LogAppendTime",
        },
        required=frozenset({"cleanup.policy", "retention.ms"}),
    )


def control_plane_specs(application_id: str, replication_factor: int | None = None) -> tuple[TopicSpec, ...]:
    """The two control topics, and those of the history, of the metrics and of the lookups."""
    return (
        *control_specs(application_id, replication_factor),
        history_spec(application_id, replication_factor),
        metrics_spec(application_id, replication_factor),
        lookups_spec(application_id, replication_factor),
    )
