"""Whether a store may be gone on with: what it lacks of its changelog, and since when, by its clocks and its commit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import holds_all_of
from airflow_provider.common.clock import now_ms
from airflow_provider.errors import StoreDivergedError, StoreOutdatedError
from airflow_provider.state.position import ChangelogPosition, Position

_TOUCH_MS: Final = 60_000
"""Often enough that no store that is followed is ever taken for one that slept past delete.retention.ms."""
_RETENTION_FLOOR_MS: Final = 60_000
"""A restore is never asked to be faster than this, however short the changelog keeps deletions: it could not be."""


class Completeness:
    """When it was known last that all of a changelog is applied.

    A changelog keeps deletions for a while only: a store that lacked something for longer may have missed one. By two
    clocks: one may have been set back, the other stands still while the host sleeps.

    Args:
        position: of the store as it is opened; None while it is empty.
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
        """Whether that was a minute ago or longer, or the clock was set back since, and no end is awaited."""
        if position is None or (self._asked is not None and self._asked[0] > position.offset):
            return False
        return abs(now_ms() - position.complete_at_ms) > _TOUCH_MS

    def at_ms(self, before: ChangelogPosition | None, offset: int, at_end: bool) -> int:
        """When all was applied, once everything before an offset is: now at the end, else when an end was asked for.

        Args:
            before: where the store stood; None while it was empty: since it was opened.

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


class LastCommitRead:
    """The last commit that a store has applied, which is to be seen in the changelog before the store is gone on with.

    Brokers can acknowledge a commit and lose it: Kafka 4.3 drops the marker of a transaction that ends while a
    partition has no leader, and the records are aborted with the next one (docs/faults.md, "Brokers"); or a new leader
    lacks it, and another record lies there by now, which a standby that has read it need not have heard of. A store
    that went on from such a commit would have counted records whose output nobody sees.
    """

    def __init__(self, store: Path, changelog: str) -> None:
        self._store, self._changelog = store, changelog
        self.awaited_at: int | None = None
        """Its offset; None where it was seen, or nothing is to be."""

    def read_back(self, position: ChangelogPosition | None, offset: int, low: int) -> int:
        """Where to begin, so that it is seen."""
        if position is not None and offset == position.offset:
            at = position.commit_at if position.own_commit_at is None else position.own_commit_at
            self.awaited_at = at if at is not None and low <= at else None
        return offset if self.awaited_at is None else self.awaited_at

    def take(self, batch: ChangelogBatch, position: Position | None) -> bool:
        """Whether it is the first record of a batch, which the store has applied then; it is seen by that.

        Raises:
            StoreDivergedError: another record lies there.
        """
        awaited = self.awaited_at
        if awaited is None or batch.first_offset != awaited:
            return False
        if position is not None and batch.first_commit != position.commit:
            raise self._missing(awaited)
        self.awaited_at = None
        return True

    def seen(self, batch: ChangelogBatch, position: Position | None) -> bool:
        """Whether none is awaited, or there are later ones that hold all of it, so that it may be compacted away.

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
        raise self._missing(awaited)

    def _missing(self, awaited: int) -> StoreDivergedError:
        return StoreDivergedError(
            f"The store at {self._store} has applied the commit at offset {awaited} of {self._changelog}, which the "
            "brokers acknowledged, and it is not there: the transaction was aborted since, or a new leader lacks it. "
            "The store is moved aside and restored, and the records are processed again. Outputs of the same "
            "transaction may be seen twice if other partitions did not lose it: see docs/faults.md, 'Brokers'."
        )


_HOUR_MS: Final = 3_600_000
_CLOCK_JUMP_MS: Final = _HOUR_MS
"""How far a host's clock may have been set back unnoticed."""


@dataclass(frozen=True)
class ResumePoint:
    """Where to read from."""

    offset: int
    fresh: bool
    reason: str


def find_resume_point(
    position: Position | None,
    changelog: str,
    low: int,
    high: int,
    now_ms: int,
    delete_retention_ms: int,
    *,
    holds_data: bool,
) -> ResumePoint:
    """Resume a store from its changelog's position where that is safe, else restore it afresh.

    Args:
        position: of the task's stores; None while all are empty.
        high: offset after its last record.
        now_ms: epoch ms of the host that applied.
        delete_retention_ms: how long the changelog keeps deletions. A store that slept longer may have missed one. The
            host's clock may have been set back since by an hour, or by a quarter of this if that is less: so much
            earlier a store counts as too old.
        holds_data: whether the changelog's store has any key; one that has, without a position, was filled from
            elsewhere.
    """
    at = None if position is None else position.changelogs.get(changelog)
    if at is None:
        # The commit of other stores is not one of this store: what it says is processed is in none of its values.
        if not holds_data and (position is None or position.commit is None):
            return ResumePoint(low, False, "the store is empty")
        others = ", ".join(map(repr, position.changelogs)) if position is not None else ""
        return ResumePoint(low, True, f"the store was applied from {others or 'an unknown changelog'}")
    if at.offset > high:
        return ResumePoint(
            low, True, f"position {at.offset} lies past the changelog's end {high}: it was created again"
        )
    if at.offset < low:
        return ResumePoint(low, True, f"position {at.offset} lies before the changelog's start {low}: it was truncated")
    if (why := slept_too_long(at.complete_at_ms, now_ms, delete_retention_ms)) is not None:
        return ResumePoint(low, True, why)
    return ResumePoint(at.offset, False, f"resumed at {at.offset}")


def slept_too_long(complete_at_ms: int, now_ms: int, delete_retention_ms: int) -> str | None:
    """Why a store may have missed a deletion that the changelog does not keep any more; None when it cannot have.

    Asked before a store is resumed, and again when it has reached the end: who reads for longer than deletions are kept
    may have read a key before, and its deletion after, that was compacted away.

    Args:
        complete_at_ms: when it was known last that all is applied, epoch ms of the host that applied.
    """
    idle_ms, jump_ms = now_ms - complete_at_ms, min(_CLOCK_JUMP_MS, max(0, delete_retention_ms // 4))
    if idle_ms < -jump_ms:
        return f"applied {-idle_ms / _HOUR_MS:.1f} h ahead of this host's clock: how old the store is cannot be known"
    if idle_ms > delete_retention_ms - jump_ms:
        return (
            f"not applied to the end for {idle_ms / _HOUR_MS:.1f} h, longer than delete.retention.ms is sure to keep "
            "deletions"
        )
    return None
