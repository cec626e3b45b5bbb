"""A store that follows its changelog: a standby without end, a restoring active up to an end. One piece of code."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from airflow_provider.changelog.batch import ChangelogBatch, uncommitted_since
from airflow_provider.changelog.commit_record import expired_before_ms, newest_commit
from airflow_provider.changelog.completeness import Completeness, LastCommitRead
from airflow_provider.errors import TopicMismatchError
from airflow_provider.kafka.topic_spec import DELETE_RETENTION_MS
from airflow_provider.state.digest import DigestScan
from airflow_provider.state.kind import AnyStore
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.time_segments import time_prefix

_BULK_FROM = 100_000
"""Records of lag from which a restore goes the bulk way."""


class Replica:
    """Applies batches of one changelog to one of a task's stores and knows how far it is.

    Several can share the database of a task's stores: each moves its own changelog's position and leaves the others'.

    Args:
        store: the task's stores; their position is the only one that counts.
        topic_id: the topic's id, where it is known: it is written with the position.
    """

    def __init__(
        self,
        store: AnyStore,
        name: str,
        changelog: str,
        topic_id: str | None = None,
        delete_retention_ms: int = DELETE_RETENTION_MS,
    ) -> None:
        self.store = store
        self.name = name
        self.changelog = changelog
        self._topic_id = topic_id
        self._completeness = Completeness(store.path, changelog, self.position, delete_retention_ms)
        self._last_commit = LastCommitRead(store.path, changelog)
        self._at_end_at: float | None = None
        self.end: int | None = None
        self.last_end: int | None = None
        """Where this reading ends, while nobody else can add to the changelog; None where others can."""
        self._expiry_of: bytes | None = None
        self._expiry_ms: int | None = None
        self._expired_ms: int | None = None
        self.begin_restore()

    def begin_restore(self) -> None:
        """A restore begins here: the meter counts from now on."""
        self.meter = RestoreMeter()
        self.resume()

    def resume(self) -> None:
        """Reading goes on from the store's position: the end has to be reached again."""
        self.reached_end = False
        self._last_commit.awaited_at = self.last_end = None

    def expect_end(self, end: int, last: bool = False) -> None:
        """Learn how far this reading goes at least.

        Args:
            end: of the changelog, as the broker was just asked for it.
            last: whether nobody else can add to the changelog any more, so that the end is reached there and not
                before: a partition's new leader may report a lower one for a while.
        """
        self.last_end = end if last else None
        self.await_end(end)

    @property
    def position(self) -> ChangelogPosition | None:
        """Up to where the changelog is applied; None while the store is empty."""
        position = self.store.position
        return None if position is None else position.changelogs.get(self.changelog)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The stored values of keys, in their order; None where there is none.

        Raises:
            StoreCorruptedError: a block cannot be read.
        """
        return self.store.get_many(self.name, keys)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every key and stored value, in the order of the keys' bytes."""
        return self.store.items(self.name)

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The stored pairs from key `begin` (included) to `end` (excluded), in the order of the keys' bytes."""
        return self.store.range(self.name, begin, end)

    def scan(self) -> DigestScan:
        """Begin to compute the digest of what the store holds now."""
        return self.store.scan(self.name)

    def check_topic(self) -> None:
        """Refuse to go on from a position in another topic of the changelog's name.

        What such a topic holds may be anything, nothing too; so it is not for the store to be emptied and follow it.

        Raises:
            TopicMismatchError: the topic was deleted and created again since the store was applied last.
        """
        position = self.position
        before = None if position is None else position.topic_id
        if position is None or before is None or self._topic_id in (None, before):
            return
        raise TopicMismatchError(
            f"The store at {self.store.path} was applied up to offset {position.offset} of {self.changelog} with the "
            f"id {before}, and the topic of that name has the id {self._topic_id}: it was deleted and created again. "
            "The store may be all that is left of the state, and nothing in it was changed. Copy the state folder, and "
            "see 'Changelog missing or mismatched' in the runbook: rebuild the changelog from the newest store "
            "(python -m airflow_provider.streaming.changelog_rebuild APPLICATION --state-dir FOLDER), and replay the "
            "task where its other copies lie."
        )

    @property
    def offset(self) -> int:
        """Of the next changelog record to apply."""
        position = self.position
        return 0 if position is None else position.offset

    @property
    def uncommitted_from(self) -> int | None:
        """Offset of the first change that was applied behind the last commit record; None where none was."""
        position = self.position
        return None if position is None else position.uncommitted_from

    @property
    def restored(self) -> bool:
        """Whether this restore has reached the end of the changelog once."""
        return self.meter.completed

    def apply(self, batch: ChangelogBatch) -> None:
        """Apply consecutive records in one write with the position after them; the last value of a key wins.

        Raises:
            StoreOutdatedError: it took longer than the changelog keeps deletions to apply all of it.
            StatefulStreamsError: the batch's error, after what came before it was applied, or the store's.
        """
        self._apply(batch)
        if batch.error is not None:
            raise batch.error

    def _apply(self, batch: ChangelogBatch) -> None:
        before = self.position
        offset = max(batch.next_offset, self.offset)
        # Read back, it is in the store already and counts for no restore.
        read_back = self._last_commit.take(batch, self.store.position)
        seen = self._last_commit.seen(batch, self.store.position)
        # Where the last end is known, no report of it is waited for.
        at_end = seen and (batch.at_end if self.last_end is None else offset >= self.last_end)
        self.reached_end = at_end
        if at_end:
            self._at_end_at = time.monotonic()
            self.meter.complete()
            self.end = batch.next_offset
            self.store.set_bulk_load_mode(self.name, False)
        elif batch.known_end is not None:
            self.set_end(batch.known_end)
        if not batch.records:
            if before is None or offset > before.offset:
                self._move((), offset, complete_at_ms=self._completeness.at_ms(before, offset, at_end))
            return
        lag, in_bulk = self.lag_records, self.store.in_bulk_load_mode(self.name)
        self.store.set_bulk_load_mode(
            self.name, lag is not None and lag > (_BULK_FROM if not in_bulk else 0) and not at_end
        )
        complete_at_ms = self._completeness.at_ms(before, batch.next_offset, at_end)
        changes = zip(batch.keys, batch.values, strict=True)
        found = batch.commit, batch.commit_at, batch.uncommitted_from
        self._move(changes, batch.next_offset, *found, complete_at_ms=complete_at_ms)
        if batch.records > read_back:
            self.meter.add(batch.records - read_back, batch.record_bytes)

    def _move(
        self,
        changes: Iterable[tuple[bytes, bytes | None]],
        offset: int,
        commit: bytes | None = None,
        commit_at: int | None = None,
        uncommitted_from: int | None = None,
        *,
        complete_at_ms: int,
    ) -> None:
        """Write changes and this changelog's position after them; a commit that is awaited still is kept in it."""
        before = self.position
        if before is not None and commit is None:
            commit_at = before.commit_at
        uncommitted = uncommitted_since(self.uncommitted_from, commit, uncommitted_from)
        awaited_at = self._last_commit.awaited_at
        to = self._position_at(offset, complete_at_ms, commit_at, awaited_at, uncommitted)
        self._write(changes, to, commit)

    def _write(
        self, changes: Iterable[tuple[bytes, bytes | None]], to: ChangelogPosition, commit: bytes | None = None
    ) -> None:
        before = self.store.position or Position()
        newest = newest_commit(before.commit, commit)
        if newest is not self._expiry_of:
            self._expiry_of, self._expiry_ms = newest, expired_before_ms(newest, self.name)
        expired: dict[str, int] = {}
        if self._expiry_ms is not None:
            # What has expired since is not restored; nor is it deleted key by key.
            first = time_prefix(self._expiry_ms)
            changes = [pair for pair in changes if pair[0] >= first]
            expired = {} if self._expiry_ms == self._expired_ms else {self.name: self._expiry_ms}
        self.store.write({self.name: changes}, before.moved(self.changelog, to, newest), expired)
        self._expired_ms = self._expiry_ms

    def position_after_commit(
        self, offset: int, records: int, holds_records: Callable[[int, int], bool]
    ) -> ChangelogPosition:
        """The changelog's position after a commit of the task's owner, which is the last that the changelog holds.

        It is asked for before the end of the transaction, too, when the brokers have all of its records.

        Args:
            records: that the transaction wrote into the changelog, the commit record among them.
            holds_records: whether the changelog has a record between two offsets; asked where there is more than the
                one marker that ends the owner's last commit. A broker that stood still may write it twice.

        Raises:
            TopicMismatchError: the transaction does not follow what is applied: another program writes into the
                changelog, or it is another topic or a shorter log than before.
        """
        begin, at = offset - records, self.offset
        # Behind the owner's last commit lies that commit's marker.
        if begin < at or (begin > at + 1 and holds_records(at, begin)):
            raise TopicMismatchError(
                f"The transaction of the owner of {self.changelog} begins at offset {begin}, {at} was the end "
                "before it: another program writes into this changelog, or it was truncated or created again. Nothing "
                "is committed, and the task stops; find out who did it before the application is started again."
            )
        commit_at = offset - 1
        return self._position_at(offset, self._completeness.note(), commit_at, own_commit_at=commit_at)

    def _position_at(
        self,
        offset: int,
        complete_at_ms: int,
        commit_at: int | None,
        own_commit_at: int | None,
        uncommitted_from: int | None = None,
    ) -> ChangelogPosition:
        return ChangelogPosition(
            offset=offset,
            topic_id=self._topic_id,
            complete_at_ms=complete_at_ms,
            commit_at=commit_at,
            own_commit_at=own_commit_at,
            uncommitted_from=uncommitted_from,
        )

    @property
    def touch_due(self) -> bool:
        """Whether all was applied a minute ago or longer, or the clock was set back since, and no end is awaited."""
        return self._completeness.aged(self.position)

    def touch(self) -> None:
        """Note that everything is applied as of now; the caller knows that the changelog holds nothing more."""
        position = self.position
        if position is not None:
            self._write((), dataclasses.replace(position, complete_at_ms=self._completeness.note()))

    def await_end(self, end: int) -> None:
        """Learn of the changelog's end, which a broker was asked for just now.

        Once it is reached all was applied as of now: so a store that follows closely and never stands at the end does
        not count as one that slept.
        """
        self.set_end(end)
        self._completeness.ask(end)

    def read_back(self, offset: int, low: int) -> int:
        """Where to begin, so that the last commit is seen in the changelog (`LastCommitRead`)."""
        return self._last_commit.read_back(self.position, offset, low)

    def set_end(self, end: int) -> None:
        """Learn of a newer end of the changelog, as a broker reported it; an older one changes nothing."""
        self.end = end if self.end is None else max(end, self.end)

    @property
    def lag_records(self) -> int | None:
        """Offsets up to the end as last seen; None before it was seen."""
        return None if self.end is None else max(0, self.end - self.offset)

    @property
    def lag_s(self) -> float | None:
        """For how long it has not held all of the changelog; None where that is not known, as of a new store.

        By the clock of this host alone: the records' timestamps are those of another one, which may be minutes off.
        """
        if self.lag_records == 0:
            return 0.0
        if self._at_end_at is not None:
            return time.monotonic() - self._at_end_at
        if self.lag_records is None or self.position is None:
            return None
        return self._completeness.known_for_ms / 1000


_RATE_WINDOW_S = 5.0


class RestoreMeter:
    """Counts what a restore applies, and forecasts from that. One meter measures one restore."""

    def __init__(self) -> None:
        now = time.monotonic()
        self.records = 0
        self.bytes = 0
        self._begun = now
        self._took_s: float | None = None
        self._samples: deque[tuple[float, int]] = deque([(now, 0)])

    def add(self, records: int, record_bytes: int) -> None:
        """Count what was applied just now."""
        now = time.monotonic()
        self.records += records
        self.bytes += record_bytes
        self._samples.append((now, self.records))
        while len(self._samples) > 2 and now - self._samples[0][0] > _RATE_WINDOW_S:
            self._samples.popleft()

    def complete(self) -> None:
        """Note that the end of the changelog was reached; the first time counts."""
        if self._took_s is None:
            self._took_s = self.elapsed_s

    @property
    def completed(self) -> bool:
        """Whether the end of the changelog was reached once."""
        return self._took_s is not None

    @property
    def elapsed_s(self) -> float:
        """Seconds that the restore took, or takes so far."""
        return time.monotonic() - self._begun if self._took_s is None else self._took_s

    @property
    def records_per_s(self) -> float:
        """The recent rate of applying."""
        (t0, n0), (t1, n1) = self._samples[0], self._samples[-1]
        return (n1 - n0) / (t1 - t0) if t1 > t0 else 0.0

    def bytes_left(self, lag_records: int | None) -> int | None:
        """An estimate from the mean size of the records so far; None before there were any."""
        return None if lag_records is None or not self.records else lag_records * self.bytes // self.records

    def caught_up_in_s(self, lag_records: int | None) -> float | None:
        """Forecast of when the lag is gone, at the recent rate; None when unknown."""
        if lag_records == 0:
            return 0.0
        rate = self.records_per_s
        return None if lag_records is None or rate <= 0 else lag_records / rate
