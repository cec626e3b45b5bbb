"""Up to where a store is applied."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

__all__ = ["RESERVED_PREFIX", "Position"]

# No UTF-8 text begins with 0xff, so no text key can collide; a bytes key that does is refused.
RESERVED_PREFIX = b"\xff\xfestateful-streams/"
"""Keys that begin with this belong to the store and its changelog, not to the user."""


@dataclass(frozen=True)
class Position:
    """A point in a store's changelog.

    Args:
        offset: of the next changelog record to apply.
        commit: the last commit record applied, as it lies in the changelog; None before any.
        changelog: name of the changelog that the offset belongs to.
        timestamp_ms: of the last record applied, epoch ms; 0 before any.
        applied_at_ms: when it was applied, epoch ms of this host.
    """

    offset: int
    commit: bytes | None
    changelog: str
    timestamp_ms: int = 0
    applied_at_ms: int = 0

    def to_bytes(self) -> bytes:
        """For the store."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Position:
        """The inverse of `to_bytes`."""
        return msgspec.msgpack.decode(data, type=cls)
