"""A store that follows its changelog: a standby for ever, a restoring active up to an end. One piece of code."""

from __future__ import annotations

import dataclasses
import time
from collections import deque

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.table_range import TableRange
from airflow_provider.state.position import Position
from airflow_provider.state.store import Store

__all__ = ["Replica"]

_RATE_WINDOW_S = 5.0
# Often enough that a quiet standby is never taken for one that slept past delete.retention.ms.
_REFRESH_MS = 60_000
_BULK_FROM = 100_000
"""Records of lag from which a restore goes the bulk way."""


class Replica:
    """Applies batches of a changelog to a store and knows how far it is.

    Args:
        store: the store; its own position is the only one that counts.
        changelog: the topic.
        partition: the task's number.
    """

    def __init__(self, store: Store, changelog: str, partition: int) -> None:
        self.store = store
        self.changelog, self.partition = changelog, partition
        self.end: int | None = None
        self.begin()

    def begin(self) -> None:
        """A restore begins here: what is counted from now on is its own; `whole` once it has reached the end."""
        now = time.monotonic()
        self.restored_records = 0
        self.restored_bytes = 0
        self.reached_end = False
        self.whole = False
        self._begun, self._took_s = now, 0.0
        self._samples: deque[tuple[float, int]] = deque([(now, 0)])

    @property
    def offset(self) -> int:
        """Of the next changelog record to apply."""
        position = self.store.position
        return 0 if position is None else position.offset

    def apply(self, batch: ChangelogBatch) -> None:
        """Apply consecutive records in one write with the position after them; the last value of a key wins.

        Raises:
            StatefulStreamsError: the batch's error, after what came before it was applied, or the store's.
        """
        self._apply(batch)
        if batch.error is not None:
            raise batch.error

    def _apply(self, batch: ChangelogBatch) -> None:
        before = self.store.position
        self.reached_end = batch.at_end
        now_ms = _now_ms()
        if batch.at_end:
            if not self.whole:
                self._took_s = self.restore_s
            self.end, self.whole = batch.next_offset, True
            self.store.set_bulk(False)
        elif batch.known_end is not None:
            self.expect(batch.known_end)
        if not batch.records:
            if before is None or batch.next_offset > before.offset:
                base = before or Position(0, None, self.changelog)
                self.store.write(
                    (), dataclasses.replace(base, offset=max(batch.next_offset, base.offset), applied_at_ms=now_ms)
                )
            return
        lag = self.lag_records
        self.store.set_bulk(lag is not None and lag > (_BULK_FROM if not self.store.bulk else 0) and not batch.at_end)
        commit = batch.commit or (before.commit if before else None)
        self.store.write(
            zip(batch.keys, batch.values, strict=True),
            Position(batch.next_offset, commit, self.changelog, batch.timestamp_ms, now_ms),
        )
        self.restored_records += batch.records
        self.restored_bytes += batch.record_bytes
        self._sample()

    def ingest(self, table_range: TableRange) -> bool:
        """Take over table files that stand for the next range of offsets, and write the position after them.

        A crash between the two leaves newer values than the position says; the changelog brings them again from there.
        So the position comes first where there is none: its time is what fences a store that slept too long.

        Returns:
            Whether the range was the next one; if not, nothing was done.

        Raises:
            StateError: the store does not take them.
        """
        if table_range.begin != self.offset:
            return False
        before, now_ms = self.store.position, _now_ms()
        self.store.set_bulk(True)
        if before is None:
            before = Position(table_range.begin, None, self.changelog, 0, now_ms)
            self.store.write((), before)
        self.store.ingest(table_range.files)
        commit = before.commit if table_range.commit is None else table_range.commit.encode()
        timestamp_ms = table_range.timestamp_ms or before.timestamp_ms
        self.store.write((), Position(table_range.end, commit, self.changelog, timestamp_ms, now_ms))
        self.restored_records += table_range.records
        self.restored_bytes += table_range.record_bytes
        self._sample()
        return True

    @property
    def quiet(self) -> bool:
        """Whether it stood at the end and nothing was applied for a minute, or the clock was set back since."""
        position = self.store.position
        return self.reached_end and position is not None and abs(_now_ms() - position.applied_at_ms) > _REFRESH_MS

    def refresh(self) -> None:
        """Note that everything is applied as of now; the caller knows that the changelog holds nothing more."""
        position = self.store.position
        if position is not None:
            self.store.write((), dataclasses.replace(position, applied_at_ms=_now_ms()))

    def expect(self, end: int) -> None:
        """Learn of a newer end of the changelog, as a broker told."""
        self.end = end if self.end is None else max(end, self.end)

    @property
    def lag_records(self) -> int | None:
        """Offsets up to the end as last seen; None before it was seen."""
        return None if self.end is None else max(0, self.end - self.offset)

    @property
    def restore_s(self) -> float:
        """Seconds that the restore took, or takes so far."""
        return self._took_s if self.whole else time.monotonic() - self._begun

    @property
    def bytes_left(self) -> int | None:
        """An estimate from the records so far; None before there were any."""
        lag = self.lag_records
        return None if lag is None or not self.restored_records else lag * self.restored_bytes // self.restored_records

    @property
    def records_per_s(self) -> float:
        """The recent rate of applying."""
        (t0, n0), (t1, n1) = self._samples[0], self._samples[-1]
        return (n1 - n0) / (t1 - t0) if t1 > t0 else 0.0

    @property
    def caught_up_in_s(self) -> float | None:
        """Forecast of when the lag is gone, at the recent rate; None when unknown."""
        lag = self.lag_records
        if lag == 0:
            return 0.0
        rate = self.records_per_s
        return None if lag is None or rate <= 0 else lag / rate

    def _sample(self) -> None:
        now = time.monotonic()
        self._samples.append((now, self.restored_records))
        while len(self._samples) > 2 and now - self._samples[0][0] > _RATE_WINDOW_S:
            self._samples.popleft()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
