"""The consumer group that gets a transaction's source offsets."""

from __future__ import annotations

from typing import Protocol

__all__ = ["ConsumerGroup"]


class ConsumerGroup(Protocol):
    """A member of the application's consumer group, as confluent-kafka's `Consumer` is one."""

    def consumer_group_metadata(self) -> object:
        """What a transactional producer needs to commit offsets for the group (KIP-447); opaque."""
