"""Up to where the stores of a task are applied."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from airflow_provider.errors import StoreCorruptedError, StoreOutdatedError

# No UTF-8 text begins with 0xff, so no text key can collide; a bytes key that does is refused.
RESERVED_PREFIX = b"\xff\xfestateful-streams/"
"""Keys that begin with this belong to the store and its changelog, not to the user."""

POSITION_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class ChangelogPosition:
    """A point in one changelog.

    Args:
        offset: of the next changelog record to apply.
        topic_id: the topic's id in its cluster; None while it is not known.
        complete_at_ms: when it was known last that all of the changelog is applied, epoch ms of this host; before the
            first time, when its restore began. What was deleted since then may be missing. Each changelog has its own:
            a store whose changelog was not read for long has slept, however busy the task's other stores were.
        commit_at: offset of the last commit record that is applied. When reading goes on it is read back: who has it
            still has all before it, unless the log was cut there and has grown again. None where that is not known.
        own_commit_at: the same, of a commit that the task's owner wrote itself, while nobody has read it back: the
            brokers' word is all there is for it. None where there is none, and once it was read.
        uncommitted_from: offset of the first change applied behind the last commit record; None where none is. A store
            that stands at the end of its changelog has none, unless a transaction was torn.
    """

    offset: int
    topic_id: str | None = None
    complete_at_ms: int = 0
    commit_at: int | None = None
    own_commit_at: int | None = None
    uncommitted_from: int | None = None


@dataclass(frozen=True, kw_only=True)
class Position:
    """What the stores of a task stand for together.

    Args:
        changelogs: by changelog, up to where it is applied. A store whose changelog is missing is empty.
        commit: the newest commit record applied, as it lies in the changelogs; None before any.
    """

    changelogs: Mapping[str, ChangelogPosition] = field(default_factory=dict)
    commit: bytes | None = None
    format: int = POSITION_FORMAT

    def moved(self, changelog: str, to: ChangelogPosition, commit: bytes | None) -> Position:
        """The position after one changelog was applied up to a point; the others stay."""
        return dataclasses.replace(self, changelogs={**self.changelogs, changelog: to}, commit=commit)

    def to_bytes(self) -> bytes:
        """For the stores' database."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Position:
        """The inverse of `to_bytes`.

        Raises:
            StoreOutdatedError: a newer version of this package wrote it.
            StoreCorruptedError: it is no position.
        """
        try:
            found = msgspec.msgpack.decode(data, type=_Format).format
            if found <= POSITION_FORMAT:
                return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreCorruptedError(f"The store's position cannot be read ({error}).") from error
        raise StoreOutdatedError(
            f"The store's position has format {found}, this version reads up to {POSITION_FORMAT}: the store is moved "
            "aside and restored. Install the version that wrote it to use it as it is."
        )


class _Format(msgspec.Struct):
    format: int
