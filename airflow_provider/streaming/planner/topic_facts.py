"""What a job's plan depends on besides the job: its topics as they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["TopicFacts"]


@dataclass(frozen=True, kw_only=True)
class TopicFacts:
    """What was found out about a job's topics.

    Args:
        source_partitions: number of partitions of the source: as many tasks has the job.
        delete_retention_ms: the changelog's ``delete.retention.ms``: for how long it keeps tombstones.
        topic_ids: by topic, its id in the cluster, of the source and the changelog at least; empty where there is none.
        max_message_bytes: by topic that tasks write to, its ``max.message.bytes``.
    """

    source_partitions: int
    delete_retention_ms: int
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: Mapping[str, int] = field(default_factory=dict)
