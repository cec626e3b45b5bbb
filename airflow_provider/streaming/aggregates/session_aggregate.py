"""Aggregations by key and session: windows that go on while records come."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.state.time_segments import TimeSegments, time_prefix
from airflow_provider.streaming.aggregates.windowed_aggregate import (
    AggregationInWindows,
    bounds_column,
    groups_of,
    output_keys,
    window_column,
    window_states,
)
from airflow_provider.streaming.operations.batch import Changes, StateReader, without_failed
from airflow_provider.streaming.operations.operation import Batch, StoredStates
from airflow_provider.streaming.operations.stream_time import MARK_MS, Ints
from airflow_provider.streaming.terms.event_time import EVENT_MS
from airflow_provider.streaming.terms.windows import SessionWindow

_SEGMENTS: Final = 4
"""About how many segments a store of sessions has: so many keys are looked up for each group."""

_HEAD: Final = struct.Struct("<qqI")
_INDEX: Final = struct.Struct(">Q")


class StoredSession(NamedTuple):
    """A session as it is kept.

    Args:
        start: epoch ms of its first record.
        end: epoch ms at which it ends: the gap after its last record.
        row: its accumulators (`json.row_codec`).
    """

    start: int
    end: int
    row: bytes


def encode_sessions(sessions: Iterable[StoredSession]) -> bytes | None:
    """The state of a group in a segment: sessions, oldest first; None where there are none.

    Each is little-endian: i64 start, i64 end, u32 length of the row, the row.
    """
    ordered = sorted(sessions)
    return b"".join(_HEAD.pack(s.start, s.end, len(s.row)) + s.row for s in ordered) if ordered else None


def decode_sessions(state: bytes | None) -> list[StoredSession]:
    """The inverse of `encode_sessions`."""
    found, at = list[StoredSession](), 0
    while state is not None and at < len(state):
        start, end, size = _HEAD.unpack_from(state, at)
        at += _HEAD.size + size
        found.append(StoredSession(start, end, state[at - size : at]))
    return found


@dataclass(frozen=True, kw_only=True)
class SessionAggregation(AggregationInWindows):
    """An aggregation by key and session; the key of a state is the segment of the sessions' ends, and the group.

    So what has ended is a prefix of the store, and a group's open sessions are found under a handful of keys.
    """

    shared: ClassVar[bool] = True

    windows: SessionWindow

    @property
    def marks_rows(self) -> bool:
        return True

    @property
    def wants_passed(self) -> bool:
        """See `Operation.wants_passed`: of the sessions that a row touches some may have ended."""
        return True

    @property
    def segments(self) -> TimeSegments:
        if self.stored is not None and self.stored.segment_ms is not None:
            return TimeSegments(self.stored.segment_ms)
        return TimeSegments(-(-(self.windows.gap_ms + self.delay_ms) // _SEGMENTS))

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        return super().place(batch, self.delay_ms)

    def comes_in_time(self, event_ms: Ints, marks: Ints, side: int | Ints = 0) -> npt.NDArray[np.bool_]:
        """See `Operation.comes_in_time`: a row is late when the session that it alone would make has ended."""
        return event_ms + self.windows.gap_ms > marks

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`; the output's keys are those of the store, of the sessions' starts."""
        grouped = GroupedSessions(self, batch, self._lookups(batch))
        known = dict(zip(grouped.keys, state.get_many(grouped.keys), strict=True))
        return grouped.apply(known, tolerant)

    def regrouped(self, batch: Batch, known: Mapping[bytes, bytes | None]) -> Changes:
        """What some rows of a batch come to, once the keys' state is known, without those that have no room."""
        return GroupedSessions(self, batch, self._lookups(batch)).apply(known, tolerant=True)

    def _lookups(self, batch: Batch) -> list[int]:
        """The segments whose sessions a row may touch."""
        # No session that is kept ends later than the gap after this.
        rows, seen = batch.rows, batch.before.stream_time_ms
        first = max(pc.min(rows.column(MARK_MS)).as_py() + 1, pc.min(rows.column(EVENT_MS)).as_py())
        segments = self.segments
        begin = segments.start_of(first)
        end = begin if seen is None else segments.start_of(seen + self.windows.gap_ms)
        return list(range(begin, max(begin, end) + 1, segments.length_ms))

    def close(self, batch: Batch, changes: Changes, state: StateReader) -> Changes:
        # There is none while a task before an internal topic has told nothing.
        mark = batch.after.mark_ms
        ends = time_prefix(mark + 1)  # behind it lies no session that has ended
        changed = dict(changes.state)
        touched = {key: decode_sessions(value) for key, value in changed.items() if key < ends}
        output = list(changes.output)
        if self.emit == "close":
            output = self._closed(batch, touched, mark, state)
        for key, sessions in touched.items():
            changed[key] = encode_sessions(session for session in sessions if session.end > mark)
        keys = [key for key, _ in output]
        names = output_keys(groups_of(keys), window_column(keys, 0))
        named = [(name, value) for name, (_, value) in zip(names, output, strict=True)]
        return Changes([(key, changed[key]) for key in sorted(changed)], named, changes.failed)

    def _closed(
        self, batch: Batch, touched: dict[bytes, list[StoredSession]], mark: int, state: StateReader
    ) -> list[tuple[bytes, bytes | None]]:
        """The sessions that ended in a batch, as output under keys of their starts."""
        before = batch.before.watermark_ms
        if before == mark:
            return []
        begin = b"" if before is None else time_prefix(self.segments.start_of(before + 1))
        view = {key: decode_sessions(value) for key, value in state.range(begin, time_prefix(mark + 1))} | touched
        closed = [
            (groups_of([key])[0], session)
            for key in sorted(view)
            for session in view[key]
            if session.end <= mark and (before is None or session.end > before)
        ]
        if not closed:
            return []
        keys = [time_prefix(s.start) + group for group, s in closed]
        bounds = bounds_column([s.start for _, s in closed], [s.end for _, s in closed])
        results = self.results([s.row for _, s in closed], batch.rows.schema)
        return list(self.rows_of_windows(batch.key_name, keys, bounds, results))

    def expired_before_ms(self, watermark_ms: int) -> int:
        return self.segments.start_of(watermark_ms + 1)

    def read_states(self, stored: StoredStates) -> Iterator[tuple[str, str, Any]]:
        """See `Operation.read_states`: the sessions that are open, each with its ``window``."""
        live = [
            (groups_of([key])[0], session)
            for key, value in stored.items
            for session in decode_sessions(value)
            if session.end > stored.time.mark_ms
        ]
        if not live:
            return
        groups = [group for group, _ in live]
        bounds = bounds_column([s.start for _, s in live], [s.end for _, s in live])
        states = self.decode_states([s.row for _, s in live], stored.schema)
        yield from window_states(groups, bounds, states)


class _Open:
    """A session while a batch is worked through.

    Args:
        olds: what was kept of it, and under which key.
        joined: of each of these, the place of the row that made it one with those before.
    """

    __slots__ = ("end", "into", "joined", "olds", "start")

    def __init__(self, start: int, end: int, olds: list[tuple[bytes, StoredSession]]) -> None:
        self.start, self.end, self.olds = start, end, olds
        self.joined = [0] * len(olds)
        self.into: _Open | None = None

    def last(self) -> _Open:
        """The session that it became a part of."""
        found = self
        while found.into is not None:
            found = found.into
        return found

    def absorb(self, other: _Open, place: int) -> None:
        """Become one with another, by the row of a place."""
        self.joined += [place] * len(other.olds) if self.olds else other.joined
        self.start, self.end = min(self.start, other.start), max(self.end, other.end)
        self.olds += other.olds
        other.into = self


class GroupedSessions:
    """The rows of a batch, and the keys under which their groups' open sessions may lie."""

    def __init__(self, operation: SessionAggregation, batch: Batch, segments: Sequence[int]) -> None:
        self._operation, self._batch, self._rows = operation, batch, batch.rows
        self._groups: list[bytes] = batch.rows.column("__key").to_pylist()
        self.keys: list[bytes] = self._lookups(segments)

    def apply(self, known: Mapping[bytes, bytes | None], tolerant: bool) -> Changes:
        """See `Operation.merge`.

        Args:
            known: the keys' state, and perhaps that of others.
        """
        kept = {key: known.get(key) for key in self.keys}
        placed = self._placed(kept)
        # Those that records made longer, each once, in the order of their first rows.
        sessions = list(dict.fromkeys(session.last() for session in placed))
        at = {session: number for number, session in enumerate(sessions)}
        owners = {s.last(): group for s, group in zip(placed, self._groups, strict=True)}
        groups = [owners[session] for session in sessions]
        keys = pa.array([_INDEX.pack(at[session.last()]) for session in placed], pa.binary())
        index = self._rows.schema.get_field_index("__key")
        grouped = self._operation.grouped(self._batch.with_rows(self._rows.set_column(index, "__key", keys)))
        most = max(1, max((len(session.olds) for session in sessions), default=1))
        olds = [[s.olds[n][1].row if n < len(s.olds) else None for s in sessions] for n in range(most)]
        joined = [[s.joined[n] if n < len(s.olds) else 0 for s in sessions] for n in range(1, most)]
        rows, results, failed = grouped.merged(olds, joined)
        if failed:
            if not tolerant:
                raise failed[0]
            return without_failed(
                self._rows, failed, lambda left: self._operation.regrouped(self._batch.with_rows(left), kept)
            )
        state = self._state(sessions, groups, rows, kept)
        if self._operation.emit == "close":
            return Changes(state, [])
        bounds = bounds_column([s.start for s in sessions], [s.end for s in sessions])
        keys = [time_prefix(session.start) + group for session, group in zip(sessions, groups, strict=True)]
        rows_out = self._operation.rows_of_windows(self._batch.key_name, keys, bounds, results)
        output: list[tuple[bytes, bytes | None]] = []
        for session, group, row in zip(sessions, groups, rows_out, strict=True):
            gone = {old.start for _, old in session.olds} - {session.start}
            output += [*((time_prefix(start) + group, None) for start in sorted(gone)), row]
        return Changes(state, output)

    def _lookups(self, segments: Sequence[int]) -> list[bytes]:
        """The keys under which sessions lie that a row may touch: none of them ends before its group's earliest row.

        One row that comes late would have all groups looked up as far back, which may be thousands of segments where
        the watermark was made longer.
        """
        earliest: dict[bytes, int] = {}
        for group, time in zip(self._groups, self._rows.column(EVENT_MS).to_pylist(), strict=True):
            known = earliest.get(group)
            if known is None or time < known:
                earliest[group] = time
        prefixes = [time_prefix(segment) for segment in segments]
        first, length = segments[0], self._operation.segments.length_ms
        keys = list[bytes]()
        for group, time in earliest.items():
            # At least one, so that a group that is new is known to be.
            begin = min(max((time - first) // length, 0), len(prefixes) - 1)
            keys += [prefix + group for prefix in prefixes[begin:]]
        return sorted(keys)

    def _placed(self, kept: Mapping[bytes, bytes | None]) -> list[_Open]:
        """By row, the session that it came into, row after row: one that has ended by then takes no more."""
        gap = self._operation.windows.gap_ms
        by_group: dict[bytes, list[_Open]] = {}
        for key, value in kept.items():
            if value is not None:
                found = by_group.setdefault(groups_of([key])[0], [])
                found += [_Open(s.start, s.end, [(key, s)]) for s in decode_sessions(value)]
        times, marks = (self._rows.column(name).to_pylist() for name in (EVENT_MS, MARK_MS))
        placed = []
        for place, (group, time, mark) in enumerate(zip(self._groups, times, marks, strict=True)):
            sessions = by_group.setdefault(group, [])
            mine = _Open(time, time + gap, [])
            others = []
            for session in sessions:
                if session.end > mark and session.start <= mine.end and session.end >= time:
                    mine.absorb(session, place)
                else:
                    others.append(session)
            by_group[group] = [*others, mine]
            placed.append(mine)
        return placed

    def _state(
        self,
        sessions: Sequence[_Open],
        groups: Sequence[bytes],
        rows: Sequence[bytes],
        kept: Mapping[bytes, bytes | None],
    ) -> list[tuple[bytes, bytes | None]]:
        """What is kept afterwards under each key of which something changed; what has ended by now still among it."""
        changed: dict[bytes, set[StoredSession]] = {}

        def view(key: bytes) -> set[StoredSession]:
            return changed.setdefault(key, set(decode_sessions(kept.get(key))))

        for session in sessions:
            for key, old in session.olds:
                view(key).discard(old)
        segments = self._operation.segments
        for session, group, row in zip(sessions, groups, rows, strict=True):
            key = time_prefix(segments.start_of(session.end)) + group
            view(key).add(StoredSession(session.start, session.end, row))
        return [(key, encode_sessions(changed[key])) for key in sorted(changed)]
