"""Rows of two streams with the same key, whose times lie near each other."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.control.records.status import TimeStatus
from airflow_provider.state.time_segments import TimeSegments, time_prefix
from airflow_provider.streaming.joins.join_operation import JoinOperation
from airflow_provider.streaming.joins.join_rows import (
    FLAGS,
    LEFT,
    MATCHED,
    RIGHT,
    ROW,
    UNKEYED,
    How,
    JoinedColumns,
    python_row,
)
from airflow_provider.streaming.joins.row_chunks import (
    ChunkedRows,
    OpenRow,
    chunk_key,
    further_keys,
    group_of,
    place_of,
    ranges_of,
    rows_of,
)
from airflow_provider.streaming.operations.batch import ChangedState, Changes, StateReader
from airflow_provider.streaming.operations.operation import Batch, StoredStates
from airflow_provider.streaming.operations.stream_time import MARK_MS, NO_WATERMARK, Ints, StreamTime
from airflow_provider.streaming.terms.argument_check import duration_text
from airflow_provider.streaming.terms.event_time import EVENT_MS

_SEGMENTS: Final = 8
"""About how many segments the store has."""
_BUCKETS: Final = 8
"""Into how many parts the interval is cut: about so many keys are looked up for each group. What finds no partner
comes out when its part is over."""

_TIME: Final = attrgetter("time")


@dataclass(frozen=True, kw_only=True)
class IntervalJoin(JoinOperation):
    """An operation that keeps the rows of two streams until no partner can come, and emits each pair once.

    A left row at time *t* and a right one are partners when the right one's time lies from *t* less `before_ms` to *t*
    plus `after_ms`, both included. The key of a state begins with the time that the rows lie in (`buckets`), and the
    group; rows of many lie under several (`joins.row_chunks`).

    A row is over when the watermark is past every time that a partner can have. One that is over when it comes is late.
    One that is over meets nothing any more; if it has met nothing, it comes out alone, once its whole bucket is over.

    Args:
        how: ``inner`` emits pairs, ``left`` also left rows without partner, ``outer`` also right ones.
        before_ms: how much earlier than the left row the right one may be.
        after_ms: how much later.
        delays_ms: of the watermarks, by side.
        stored: the signature of a store that holds what was written before; None for a store that begins empty.
    """

    timed: ClassVar[bool] = True
    lasting: ClassVar[bool] = True

    joined: JoinedColumns
    how: How
    before_ms: int
    after_ms: int
    delays_ms: tuple[int, int]
    stored: StoreSignature | None = None

    @property
    def delay_ms(self) -> int:
        return max(self.delays_ms)

    @property
    def reaches_ms(self) -> tuple[int, int]:
        """By side, how much later than a row its last partner may be."""
        return self.after_ms, self.before_ms

    @property
    def alone(self) -> tuple[int, ...]:
        """The sides whose rows come out without a partner, too."""
        return {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}[self.how]

    @property
    def kept(self) -> str:
        # An inner join does not note which rows have had a partner, and another interval keeps other rows.
        before, after = duration_text(self.before_ms), duration_text(self.after_ms)
        return f"{self.how} join of two streams, the right one from {before} before to {after} after the left one"

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        plain = super().signature(key_name, key_type, schema)
        return dataclasses.replace(plain, segment_ms=self.segments.length_ms)

    def going_on(self, signature: StoreSignature) -> IntervalJoin:
        """See `Operation.going_on`: the segments stay as long as they were."""
        return dataclasses.replace(self, stored=signature)

    @property
    def segments(self) -> TimeSegments:
        if self.stored is not None and self.stored.segment_ms is not None:
            return TimeSegments(self.stored.segment_ms)
        kept_ms = max(self.reaches_ms) + max(self.delays_ms)
        length, bucket = max(1, -(-kept_ms // _SEGMENTS)), self._bucket_ms
        # A bucket lies in one segment, whatever becomes of the delays later.
        return TimeSegments(length if length < bucket else -(-length // bucket) * bucket)

    @property
    def buckets(self) -> TimeSegments:
        """How the times are cut that rows are kept under: a segment is one or several."""
        length, bucket = self.segments.length_ms, self._bucket_ms
        return TimeSegments(length if length % bucket else bucket)

    @property
    def _bucket_ms(self) -> int:
        return max(1, -(-(self.before_ms + self.after_ms) // _BUCKETS))

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        rows = batch.rows
        event_ms = rows.column(EVENT_MS).to_numpy()
        sides = (rows.column(FLAGS).to_numpy() & RIGHT).astype(np.int64)
        of_sides = batch.side_watermarks(sides, self.delays_ms)
        marks = np.maximum(np.minimum.reduce(of_sides), batch.before.mark_ms)
        after = batch.time_of_sides(batch.ends(of_sides))
        rows = rows.append_column(MARK_MS, pa.array(marks))
        return batch.placed(rows, after, self.comes_in_time(event_ms, marks, sides))

    def comes_in_time(self, event_ms: Ints, marks: Ints, side: int | Ints = 0) -> npt.NDArray[np.bool_]:
        """See `Operation.comes_in_time`: a row is late when it is over."""
        last_ms: Ints = event_ms + np.take(self.reaches_ms, side)
        return last_ms >= marks

    def told_ms(self, time: StreamTime) -> int | None:
        """See `Operation.told_ms`: a row comes out alone once all are over that are kept with it."""
        mark = time.watermark_ms
        return None if mark is None else mark - max(self.reaches_ms) - (self.buckets.length_ms if self.alone else 0)

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        return [group_of(key) for key in keys]

    def ranges_of(self, group: bytes) -> Sequence[tuple[bytes, bytes]]:
        """See `Operation.ranges_of`."""
        return ranges_of(group)

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`: row after row, in the order of the topic."""
        rows, before, after = batch.rows, batch.before, batch.after
        assert after.stream_time_ms is not None  # there are rows
        last_ms = rows.column(MARK_MS)[-1].as_py()
        return IntervalRows(self, rows, before.mark_ms, last_ms, after.stream_time_ms).merge(state)

    @property
    def keeps_many(self) -> bool:
        return True

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the rows of both sides, of each chunk those of one."""
        found = []
        for state in states:
            sides: tuple[list[Any], list[Any]] = ([], [])
            for kept in rows_of(state):
                sides[kept.side].append(python_row(kept.row))
            found.append({"left": sides[LEFT], "right": sides[RIGHT]})
        return found

    def close(self, batch: Batch, changes: Changes, state: StateReader) -> Changes:
        """See `Operation.close`: what comes out alone by its rows is among the output already."""
        mark, rows = batch.after.watermark_ms, batch.rows
        if mark is None:
            return changes
        last = rows.column(MARK_MS)[-1].as_py() if len(rows) else batch.before.mark_ms
        if batch.upstream is not None and last < mark:
            # Other tasks have told so behind the rows.
            told = IntervalRows(self, rows.slice(0, 0), last, mark, mark)
            changes = changes.then(told.merge(ChangedState(state, changes.state)))
        first = time_prefix(self.expired_before_ms(mark))
        return dataclasses.replace(changes, state=[pair for pair in changes.state if pair[0] >= first])

    def over_ms(self, side: int, bucket: int) -> int:
        """The watermark at which all of a side's rows in a bucket are over."""
        return bucket + self.buckets.length_ms + self.reaches_ms[side]

    def over_before(self, side: int, mark_ms: int) -> int:
        """Before which bucket all of a side's rows are over."""
        return self.buckets.start_of(mark_ms - self.reaches_ms[side])

    def expired_before_ms(self, watermark_ms: int) -> int:
        return self.segments.start_of(watermark_ms - max(self.reaches_ms))

    @property
    def text(self) -> str:
        before, after = duration_text(self.before_ms), duration_text(self.after_ms)
        return f"{self.how} join of two streams, the right one {before} before to {after} after"

    def time_status(self, time: StreamTime, sides: Sequence[str]) -> TimeStatus:
        """See `Operation.time_status`: two streams go on at the pace of the later one."""
        left, right = time.side_watermarks_ms or (None, None)
        behind = LEFT if left is None or (right is not None and left < right) else RIGHT
        return self._held_back(time, sides, (left, right), None if left == right else behind)

    def read_states(self, stored: StoredStates) -> Iterator[tuple[str, str, Any]]:
        """See `Operation.read_states`: the rows that can have a partner, each under its group, side and time."""
        for key, state in stored.items:
            group = group_of(key).decode()
            for kept in rows_of(state):
                if kept.time + self.reaches_ms[kept.side] >= stored.time.mark_ms:
                    side = "right" if kept.side else "left"
                    yield group, f"{group}@{side}@{kept.time}", python_row(kept.row)


class _Group:
    """The rows of a group: by time and side as they are kept, and by side in the order of their times.

    Args:
        mark_ms: the watermark up to which its rows have come out alone.
    """

    __slots__ = ("by_side", "kept", "mark_ms", "name")

    def __init__(self, name: bytes, mark_ms: int) -> None:
        self.name = name
        self.kept = dict[tuple[int, int], ChunkedRows]()
        self.by_side: tuple[list[OpenRow], list[OpenRow]] = ([], [])
        self.mark_ms = mark_ms

    def of(self, time: int, side: int) -> ChunkedRows:
        """What is kept under a time, of a side."""
        if (found := self.kept.get((time, side))) is None:
            found = self.kept[time, side] = ChunkedRows(time, self.name, side)
        return found

    def sort(self) -> None:
        """After all has been loaded."""
        for (_, side), kept in sorted(self.kept.items()):
            self.by_side[side].extend(kept.rows())
        for rows in self.by_side:
            rows.sort(key=_TIME)

    def add(self, bucket: int, time: int, side: int, row: bytes) -> OpenRow:
        """Keep a row that came."""
        new = self.of(bucket, side).add(time, side, row)
        bisect.insort_right(self.by_side[side], new, key=_TIME)
        return new


class IntervalRows:
    """A batch's rows, and where possible partners lie.

    Args:
        before_ms: the watermark before them.
        after_ms: the one up to which rows without partner come out.
        seen_ms: the greatest event time that any row has.
    """

    def __init__(self, operation: IntervalJoin, rows: pa.Table, before_ms: int, after_ms: int, seen_ms: int) -> None:
        self._operation = operation
        names = ("__key", FLAGS, EVENT_MS, MARK_MS, ROW)
        self._columns: list[list[Any]] = [rows.column(name).to_pylist() for name in names]
        self._before_ms, self._after_ms, self._seen_ms = before_ms, after_ms, seen_ms

    def _needed(self) -> tuple[set[bytes], set[bytes]]:
        """The keys where the rows' partners begin to lie, and those where the rows themselves will."""
        buckets, partners, own = self._operation.buckets, set[tuple[int, bytes, int]](), set[tuple[int, bytes, int]]()
        for group, flags, time, mark in zip(*self._columns[:4], strict=True):
            if not flags & UNKEYED:
                side = flags & RIGHT
                first, last = self._partners(side, time, mark)
                starts = range(buckets.start_of(first), min(last, self._seen_ms) + 1, buckets.length_ms)
                partners.update((start, group, 1 - side) for start in starts)
                own.add((buckets.start_of(time), group, side))
        return {chunk_key(*place) for place in partners}, {chunk_key(*place) for place in own}

    def _partners(self, side: int, time: int, mark: int) -> tuple[int, int]:
        """From when to when the partners of a row lie that are not over."""
        reach, of_partner = self._operation.reaches_ms[side], self._operation.reaches_ms[1 - side]
        return max(time, mark) - of_partner, time + reach

    def _read(self, state: StateReader) -> list[tuple[bytes, bytes | None]]:
        """What is kept of possible partners and beside the rows, and what is over after the batch and was not before.

        The full chunks of possible partners are read, too; those beside a row that comes are not.
        """
        of_partners, own = self._needed()
        keys = sorted(of_partners | own)
        found = list(zip(keys, state.get_many(keys), strict=True))
        chunks = [further_keys(key, value) for key, value in found if value is not None and key in of_partners]
        more = list(itertools.chain.from_iterable(chunks))
        if more:
            found += zip(more, state.get_many(more), strict=True)
        return found + self._read_over(state)

    def _read_over(self, state: StateReader) -> list[tuple[bytes, bytes | None]]:
        over = dict[bytes, bytes | None]()
        operation, before = self._operation, self._before_ms
        for side in operation.alone:
            end = operation.over_before(side, self._after_ms)
            first = None if before == NO_WATERMARK else operation.over_before(side, before)
            if first is None or first < end:
                over.update(state.range(b"" if first is None else time_prefix(first), time_prefix(end)))
        return sorted(over.items())

    def merge(self, state: StateReader) -> Changes:
        """See `Operation.merge`."""
        operation, buckets = self._operation, self._operation.buckets
        both, one, alone = operation.joined.both, operation.joined.one, operation.alone
        groups = self._load(self._read(state))
        output = list[tuple[bytes, bytes | None]]()
        for key, flags, time, mark, row in zip(*self._columns, strict=True):
            side, group = flags & RIGHT, groups[key]
            if alone:
                output += [(key, value) for value in self._come_out(group, mark)]
            if flags & UNKEYED:
                if side in alone:
                    output.append((key, one(side, row)))
                continue
            mine = group.add(buckets.start_of(time), time, side, row)
            first, last = self._partners(side, time, mark)
            others = group.by_side[1 - side]
            for at in range(bisect.bisect_left(others, first, key=_TIME), len(others)):
                other = others[at]
                if other.time > last:
                    break
                output.append((key, both(other.row, row) if side else both(row, other.row)))
                if side in alone:
                    mine.match()
                if 1 - side in alone:
                    other.match()
        for key, group in groups.items():
            output += [(key, value) for value in self._come_out(group, self._after_ms)]
        changes = [change for group in groups.values() for kept in group.kept.values() for change in kept.changes()]
        return Changes(sorted(changes), output)

    def _load(self, found: Sequence[tuple[bytes, bytes | None]]) -> dict[bytes, _Group]:
        groups = {key: _Group(key, self._before_ms) for key in dict.fromkeys(self._columns[0])}
        for key, state in found:
            if state is not None:
                name = group_of(key)
                if (group := groups.get(name)) is None:
                    group = groups[name] = _Group(name, self._before_ms)
                time, side, number = place_of(key)
                group.of(time, side).load(number, state)
        for group in groups.values():
            group.sort()
        return groups

    def _come_out(self, group: _Group, mark: int) -> list[bytes]:
        """A group's rows without partner that are over now, with all that are kept with them, and were not before."""
        operation = self._operation
        found = list[tuple[int, int, int, bytes]]()
        for side in operation.alone:
            first, end = (operation.over_before(side, ms) for ms in (group.mark_ms, mark))
            if first < end:
                for (bucket, of_side), kept in group.kept.items():
                    if of_side == side and first <= bucket < end:
                        over = operation.over_ms(side, bucket)
                        found += [(over, side, row.time, row.row) for row in kept.rows() if not row.flags & MATCHED]
        group.mark_ms = mark
        found.sort(key=itemgetter(0, 1, 2))
        return [operation.joined.one(side, row) for _, side, _, row in found]
