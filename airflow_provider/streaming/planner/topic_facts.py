"""What a job's plan depends on besides the job: its topics as they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["TopicFacts"]


@dataclass(frozen=True, kw_only=True)
class TopicFacts:
    """What was found out about a job's topics.

    Args:
        partitions: by topic that a stage reads, how many it has: as many tasks has the stage.
        delete_retention_ms: by changelog, its ``delete.retention.ms``: for how long it keeps tombstones.
        topic_ids: by topic, its id in the cluster, of sources and changelogs at least; empty where there is none.
        max_message_bytes: by topic that tasks write to, its ``max.message.bytes``.
    """

    partitions: Mapping[str, int]
    delete_retention_ms: Mapping[str, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: Mapping[str, int] = field(default_factory=dict)
