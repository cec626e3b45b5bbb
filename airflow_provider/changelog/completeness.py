"""Whether a store holds all of its changelog, and since when: by the clocks, and by the commit that it knows of."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import holds_all_of
from airflow_provider.changelog.resume_point import slept_too_long
from airflow_provider.common.clock import now_ms
from airflow_provider.errors import StoreDivergedError, StoreOutdatedError
from airflow_provider.state.position import ChangelogPosition, Position

__all__ = ["Completeness", "OwnCommit"]

_TOUCH_MS: Final = 60_000
"""Often enough that no store that is followed is ever taken for one that slept past delete.retention.ms."""
_RETENTION_FLOOR_MS: Final = 60_000
"""A restore is never asked to be faster than this, however short the changelog keeps deletions: it could not be."""


class Completeness:
    """When it was known last that all of a changelog is applied.

    A changelog keeps deletions for a while only: a store that lacked something for longer may have missed one. By two
    clocks: one may have been set back, the other stands still while the host sleeps.

    Args:
        store: the store's folder, for messages.
        changelog: its topic, for messages.
        position: of the store as it is opened; None while it is empty.
        delete_retention_ms: how long the changelog keeps deletions.
    """

    def __init__(
        self, store: Path, changelog: str, position: ChangelogPosition | None, delete_retention_ms: int
    ) -> None:
        self._store, self._changelog, self._delete_retention_ms = store, changelog, delete_retention_ms
        self._opened_at_ms = now_ms()
        self._idle_before_ms = 0 if position is None else max(0, self._opened_at_ms - position.complete_at_ms)
        self._known_at = time.monotonic()
        self._asked: tuple[int, int] | None = None

    def ask(self, end: int) -> None:
        """A broker was asked for the changelog's end just now: once it is reached all was applied as of now."""
        self._asked = (end, now_ms())

    def note(self) -> int:
        """All is applied as of now: the time, epoch ms."""
        now = now_ms()
        self._note(now, now)
        return now

    def aged(self, position: ChangelogPosition | None) -> bool:
        """Whether that was a minute ago or longer, or the clock was set back since, and no end is awaited.

        Args:
            position: of the store; None while it is empty.
        """
        if position is None or (self._asked is not None and self._asked[0] > position.offset):
            return False
        return abs(now_ms() - position.complete_at_ms) > _TOUCH_MS

    def at_ms(self, before: ChangelogPosition | None, offset: int, at_end: bool) -> int:
        """When all was applied, once everything before an offset is: now at the end, else when an end was asked for.

        Args:
            before: where the store stood; None while it was empty: since it was opened.
            offset: of the next record to apply.
            at_end: whether the changelog ends there.

        Raises:
            StoreOutdatedError: that was so long after the last time that a deletion may have been missed.
        """
        now, since = now_ms(), self._opened_at_ms if before is None else before.complete_at_ms
        if at_end:
            complete_at_ms = now
        elif self._asked is not None and offset >= self._asked[0]:
            complete_at_ms = self._asked[1]
        else:
            return since
        idle_ms, retention_ms = max(now - since, self.known_for_ms), max(self._delete_retention_ms, _RETENTION_FLOOR_MS)
        if (why := slept_too_long(now - idle_ms, now, retention_ms)) is not None:
            raise StoreOutdatedError(
                f"The store at {self._store} is restored afresh: {why}. Where a restore takes so long, raise "
                f"delete.retention.ms of {self._changelog} or what bounds the restore's rate."
            )
        self._note(complete_at_ms, now)
        return complete_at_ms

    @property
    def known_for_ms(self) -> int:
        """For how long it has been known last, by the clock that nobody sets."""
        return self._idle_before_ms + int((time.monotonic() - self._known_at) * 1000)

    def _note(self, at_ms: int, now: int) -> None:
        self._idle_before_ms, self._known_at, self._asked = max(0, now - at_ms), time.monotonic(), None


class OwnCommit:
    """The last commit of a store's owner, which is to be seen in the changelog if only the brokers' word says it is.

    Brokers can acknowledge a commit and lose it: Kafka 4.3 drops the marker of a transaction that ends while a
    partition has no leader, and the records are aborted with the next one (docs/faults.md, "Brokers"). A store that
    went on from such a commit would have counted records whose output nobody sees.

    Args:
        store: the store's folder, for messages.
        changelog: its topic, for messages.
    """

    def __init__(self, store: Path, changelog: str) -> None:
        self._store, self._changelog = store, changelog
        self.awaited_at: int | None = None
        """Its offset; None where it was seen, or nothing is to be."""

    def read_back(self, position: ChangelogPosition | None, offset: int, low: int) -> int:
        """Where to begin, so that it is seen.

        Args:
            position: of the store; None while it is empty.
            offset: of the next record to apply.
            low: first offset that the log still has.
        """
        at = None if position is None else position.own_commit_at
        if position is not None and at is not None and low <= at and offset == position.offset:
            self.awaited_at = at
        return offset if self.awaited_at is None else self.awaited_at

    def take(self, batch: ChangelogBatch) -> bool:
        """Whether it is the first record of a batch, which the store has applied then; it is seen by that."""
        found = self.awaited_at is not None and batch.first_offset == self.awaited_at
        if found:
            self.awaited_at = None
        return found

    def seen(self, batch: ChangelogBatch, position: Position | None) -> bool:
        """Whether none is awaited, or there are later ones that hold all of it, so that it may be compacted away.

        Args:
            batch: of the changelog.
            position: of the task's stores; None while they are empty.

        Raises:
            StoreDivergedError: it is not in the changelog.
        """
        awaited = self.awaited_at
        if awaited is None:
            return True
        if batch.next_offset <= awaited or (batch.commit is None and not batch.at_end):
            return False  # its marker is not written yet, or the next commit not read
        own = None if position is None else position.commit
        if own is not None and batch.commit is not None and holds_all_of(own, batch.commit):
            self.awaited_at = None
            return True
        raise StoreDivergedError(
            f"The brokers acknowledged the commit at offset {awaited} of {self._changelog}, and it is not there: the "
            f"transaction was aborted since. The store at {self._store} has applied it, so it is moved aside and "
            "restored, and the records are processed again. Outputs of the same transaction may be seen twice if other "
            "partitions did not lose it: see docs/faults.md, 'Brokers'."
        )
