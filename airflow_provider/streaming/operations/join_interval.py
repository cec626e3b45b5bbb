"""Rows of two streams with the same key, whose times lie near each other."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from airflow_provider.changelog.signature import StoreSignature
from airflow_provider.state.time_segments import PREFIX_BYTES, TimeSegments, time_of, time_prefix
from airflow_provider.streaming.duration import duration_text
from airflow_provider.streaming.event_time import EVENT_MS
from airflow_provider.streaming.operations.join_rows import (
    FLAGS,
    LEFT,
    RIGHT,
    ROW,
    UNKEYED,
    How,
    JoinedColumns,
    JoinRows,
)
from airflow_provider.streaming.operations.join_state import MATCHED, KeptRow, decode_rows, encode_rows, python_row
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, StreamTime, joined_watermarks
from airflow_provider.streaming.operations.timed_rows import StoreRange, TimedRows, late_records
from airflow_provider.streaming.operations.type_name import type_name

__all__ = ["IntervalJoin"]

_SEGMENTS: Final = 8
"""About how many segments the store has: so many keys are looked up for each group. What finds no partner comes out
when its segment is over."""

_MARK_MS: Final = "__mark_ms"
_BEFORE_MS: Final = "__before_ms"
_SEEN_MS: Final = "__seen_ms"
_TIME: Final = attrgetter("time")


@dataclass(frozen=True, kw_only=True)
class IntervalJoin:
    """An operation that keeps the rows of two streams until no partner can come, and emits each pair once.

    A left row at time *t* and a right one are partners when the right one's time lies from *t* less `before_ms` to *t*
    plus `after_ms`, both included. The key of a state is the segment of the rows' times, and the group.

    A row is over when the watermark is past every time that a partner can have. One that is over when it comes is late.
    One that is over meets nothing any more; if it has met nothing, it comes out alone, once its whole segment is over.

    Args:
        joined: the columns.
        how: ``inner`` emits pairs, ``left`` also left rows without partner, ``outer`` also right ones.
        before_ms: how much earlier than the left row the right one may be.
        after_ms: how much later.
        delays_ms: of the watermarks, by side.
        stored: the signature of a store that holds what was written before; None for a store that begins empty.
    """

    joined: JoinedColumns
    how: How
    before_ms: int
    after_ms: int
    delays_ms: tuple[int, int]
    stored: StoreSignature | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the rows that it emits."""
        return self.joined.names

    @property
    def decoder(self) -> JoinRows:
        """Reads the records' values."""
        return JoinRows()

    @property
    def reaches_ms(self) -> tuple[int, int]:
        """By side, how much later than a row its last partner may be."""
        return self.after_ms, self.before_ms

    @property
    def alone(self) -> tuple[int, ...]:
        """The sides whose rows come out without a partner, too."""
        return {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}[self.how]

    def signature(self, key_name: str, key_type: pa.DataType, schema: pa.Schema) -> StoreSignature:
        """See `Operation.signature`.

        Args:
            key_name: the key column's name.
            key_type: its type before it became text.
            schema: of the rows that it emits.
        """
        before, after = duration_text(self.before_ms), duration_text(self.after_ms)
        return StoreSignature(
            key=key_name,
            key_type=type_name(key_type),
            operation="join",
            # An inner join does not note which rows have had a partner, and another interval keeps other rows.
            join=f"{self.how} join of two streams, the right one from {before} before to {after} after the left one",
            columns={name: type_name(schema.field(name).type) for name in self.columns},
            segment_ms=self.segments.length_ms,
        )

    def going_on(self, signature: StoreSignature) -> IntervalJoin:
        """See `Operation.going_on`: the segments stay as long as they were."""
        return dataclasses.replace(self, stored=signature)

    @property
    def segments(self) -> TimeSegments:
        """See `TimedOperation.segments`."""
        if self.stored is not None and self.stored.segment_ms is not None:
            return TimeSegments(self.stored.segment_ms)
        kept_ms = max(self.reaches_ms) + max(self.delays_ms)
        return TimeSegments(max(1, -(-kept_ms // _SEGMENTS)))

    def place(self, rows: pa.Table, before: StreamTime) -> TimedRows:
        """See `TimedOperation.place`."""
        event_ms = rows.column(EVENT_MS).to_numpy()
        sides = (rows.column(FLAGS).to_numpy() & RIGHT).astype(np.int64)
        marks, after = joined_watermarks(event_ms, sides, self.delays_ms, before)
        rows = rows.append_column(_MARK_MS, pa.array(marks))
        begin = NO_WATERMARK if before.watermark_ms is None else before.watermark_ms
        rows = rows.append_column(_BEFORE_MS, pa.repeat(pa.scalar(begin, pa.int64()), rows.num_rows))
        rows = rows.append_column(_SEEN_MS, pa.repeat(pa.scalar(after.stream_time_ms, pa.int64()), rows.num_rows))
        open_ = event_ms + np.array(self.reaches_ms)[sides] >= marks
        in_time = rows if open_.all() else rows.filter(pa.array(open_))
        late = 0 if in_time is rows else late_records(rows, in_time)
        return TimedRows(rows=in_time, late=late, before=before, after=after)

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        """See `TimedOperation.groups`."""
        return [key[PREFIX_BYTES:] for key in keys]

    def group(self, key_name: str, rows: pa.Table) -> IntervalRows:
        """See `Operation.group`.

        Args:
            key_name: the key column's name.
            rows: as `place` gives them.
        """
        return IntervalRows(self, rows)

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the rows of both sides that are kept of a segment's times."""
        found = []
        for state in states:
            sides: tuple[list[Any], list[Any]] = ([], [])
            for kept in decode_rows(state):
                sides[kept.side].append(python_row(kept.row))
            found.append({"left": sides[LEFT], "right": sides[RIGHT]})
        return found

    def close(self, changes: Changes, placed: TimedRows, kept: StoreRange, key_name: str) -> Changes:
        """See `TimedOperation.close`: what came out alone is among the output already."""
        mark = placed.after.watermark_ms
        if mark is None:
            return changes
        first = time_prefix(self.expired_before_ms(mark))
        return dataclasses.replace(changes, state=[pair for pair in changes.state if pair[0] >= first])

    def over_ms(self, side: int, segment: int) -> int:
        """The watermark at which all of a side's rows in a segment are over."""
        return segment + self.segments.length_ms + self.reaches_ms[side]

    def over_before(self, side: int, mark_ms: int) -> int:
        """Before which segment all of a side's rows are over.

        Args:
            side: left or right.
            mark_ms: the watermark.
        """
        return self.segments.start_of(mark_ms - self.reaches_ms[side])

    def expired_before_ms(self, watermark_ms: int) -> int:
        """See `TimedOperation.expired_before_ms`."""
        return self.segments.start_of(watermark_ms - max(self.reaches_ms))

    def read_states(
        self, items: Sequence[tuple[bytes, bytes]], schema: pa.Schema, time: StreamTime
    ) -> list[tuple[str, str, Any]]:
        """See `TimedOperation.read_states`: the rows that can have a partner, each under its group, side and time."""
        mark = NO_WATERMARK if time.watermark_ms is None else time.watermark_ms
        found = []
        for key, state in items:
            group = key[PREFIX_BYTES:].decode()
            for kept in decode_rows(state):
                if kept.time + self.reaches_ms[kept.side] >= mark:
                    side = "right" if kept.side else "left"
                    found.append((group, f"{group}@{side}@{kept.time}", python_row(kept.row)))
        return found


class _Open:
    """A row while a batch is worked through.

    Args:
        time: epoch ms.
        flags: with `MATCHED` where it has had a partner.
        row: its key and columns.
    """

    __slots__ = ("flags", "row", "time")

    def __init__(self, time: int, flags: int, row: bytes) -> None:
        self.time, self.flags, self.row = time, flags, row


class _Group:
    """The rows of a group: by segment in the order in which they came, and by side in the order of their times.

    Args:
        mark_ms: the watermark up to which its rows have come out alone.
    """

    __slots__ = ("by_side", "changed", "mark_ms", "segments")

    def __init__(self, mark_ms: int) -> None:
        self.segments = dict[int, list[_Open]]()
        self.by_side: tuple[list[_Open], list[_Open]] = ([], [])
        self.changed = set[int]()
        self.mark_ms = mark_ms

    def load(self, segment: int, state: bytes) -> None:
        """Take what is kept of a segment, once."""
        if segment not in self.segments:
            self.segments[segment] = [_Open(time, flags, row) for time, flags, row in decode_rows(state)]

    def sort(self) -> None:
        """After the last `load`."""
        for _, rows in sorted(self.segments.items()):
            for row in rows:
                self.by_side[row.flags & RIGHT].append(row)
        for side in self.by_side:
            side.sort(key=_TIME)

    def add(self, segment: int, row: _Open) -> None:
        """Keep a row that came."""
        self.segments.setdefault(segment, []).append(row)
        self.changed.add(segment)
        bisect.insort_right(self.by_side[row.flags & RIGHT], row, key=_TIME)


class IntervalRows:
    """See `GroupedRows` and `RangeReader`: the rows of a batch, and the keys under which possible partners lie."""

    def __init__(self, operation: IntervalJoin, rows: pa.Table) -> None:
        self._operation = operation
        names = ("__key", FLAGS, EVENT_MS, _MARK_MS, ROW)
        self._columns: list[list[Any]] = [rows.column(name).to_pylist() for name in names]
        self._before_ms: int = rows.column(_BEFORE_MS)[0].as_py()
        self._after_ms: int = self._columns[3][-1]
        self._seen_ms: int = rows.column(_SEEN_MS)[0].as_py()
        self._over = dict[bytes, bytes]()
        self.keys: list[bytes] = sorted(self._needed())

    def _needed(self) -> set[bytes]:
        """Each row's own segment, and those of possible partners."""
        segments, needed = self._operation.segments, set[tuple[int, bytes]]()
        for group, flags, time, mark in zip(*self._columns[:4], strict=True):
            if not flags & UNKEYED:
                first, last = self._partners(flags & RIGHT, time, mark)
                first, last = min(first, time), max(min(last, self._seen_ms), time)
                starts = range(segments.start_of(first), segments.start_of(last) + 1, segments.length_ms)
                needed.update((start, group) for start in starts)
        return {time_prefix(start) + group for start, group in needed}

    def _partners(self, side: int, time: int, mark: int) -> tuple[int, int]:
        """From when to when the partners of a row lie that are not over."""
        reach, of_partner = self._operation.reaches_ms[side], self._operation.reaches_ms[1 - side]
        return max(time, mark) - of_partner, time + reach

    def read(self, kept: StoreRange) -> None:
        """See `RangeReader`: the segments that are over after the batch and were not before."""
        operation, before = self._operation, self._before_ms
        for side in operation.alone:
            end = operation.over_before(side, self._after_ms)
            first = None if before == NO_WATERMARK else operation.over_before(side, before)
            if first is None or first < end:
                self._over.update(kept(b"" if first is None else time_prefix(first), time_prefix(end)))

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """See `GroupedRows.apply`: row after row, in the order of the topic."""
        operation, segments = self._operation, self._operation.segments
        both, one, alone = operation.joined.both, operation.joined.one, operation.alone
        groups = self._load(old)
        output = list[tuple[bytes, bytes | None]]()
        for key, flags, time, mark, row in zip(*self._columns, strict=True):
            side, group = flags & RIGHT, groups[key]
            if alone:
                output += [(key, value) for value in self._come_out(group, mark)]
            if flags & UNKEYED:
                if side in alone:
                    output.append((key, one(side, row)))
                continue
            mine = _Open(time, side, row)
            first, last = self._partners(side, time, mark)
            others = group.by_side[1 - side]
            for at in range(bisect.bisect_left(others, first, key=_TIME), len(others)):
                other = others[at]
                if other.time > last:
                    break
                output.append((key, both(other.row, row) if side else both(row, other.row)))
                if alone:
                    mine.flags |= MATCHED
                    if not other.flags & MATCHED:
                        other.flags |= MATCHED
                        group.changed.add(segments.start_of(other.time))
            group.add(segments.start_of(time), mine)
        for key, group in groups.items():
            output += [(key, value) for value in self._come_out(group, self._after_ms)]
        state = [
            (time_prefix(segment) + key, encode_rows(KeptRow(r.time, r.flags, r.row) for r in group.segments[segment]))
            for key, group in groups.items()
            for segment in group.changed
        ]
        return Changes(sorted(state), output)

    def _load(self, old: Sequence[bytes | None]) -> dict[bytes, _Group]:
        groups = {key: _Group(self._before_ms) for key in dict.fromkeys(self._columns[0])}
        for found in (zip(self.keys, old, strict=True), sorted(self._over.items())):
            for key, state in found:
                if state is not None:
                    group = groups.setdefault(key[PREFIX_BYTES:], _Group(self._before_ms))
                    group.load(time_of(key), state)
        for group in groups.values():
            group.sort()
        return groups

    def _come_out(self, group: _Group, mark: int) -> list[bytes]:
        """A group's rows without partner in segments that are over now and were not before."""
        operation = self._operation
        found = list[tuple[int, int, int, bytes]]()
        for side in operation.alone:
            first, end = (operation.over_before(side, ms) for ms in (group.mark_ms, mark))
            if first < end:
                for segment, rows in group.segments.items():
                    if first <= segment < end:
                        over = operation.over_ms(side, segment)
                        found += [
                            (over, side, row.time, row.row)
                            for row in rows
                            if row.flags & RIGHT == side and not row.flags & MATCHED
                        ]
        group.mark_ms = mark
        found.sort(key=itemgetter(0, 1, 2))
        return [operation.joined.one(side, row) for _, side, _, row in found]
