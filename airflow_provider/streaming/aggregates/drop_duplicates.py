"""Rows that are the first of their key within a time; the others are dropped."""

from __future__ import annotations

import bisect
import dataclasses
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.state.time_segments import TimeSegments, time_prefix
from airflow_provider.streaming.aggregates.windowed_aggregate import bounds_column, groups_of, window_states, with_time
from airflow_provider.streaming.json.json_rows import json_rows, python_values
from airflow_provider.streaming.json.types import type_name, without_json_type
from airflow_provider.streaming.operations.batch import (
    Changes,
    FunctionError,
    KnownState,
    StateReader,
    StoreReader,
    without_records,
)
from airflow_provider.streaming.operations.limits import Limits, first_too_large, too_large
from airflow_provider.streaming.operations.operation import Batch, Operation, StoredStates
from airflow_provider.streaming.operations.stream_time import Ints
from airflow_provider.streaming.terms.argument_check import duration_text
from airflow_provider.streaming.terms.event_time import EVENT_MS, EventTime

DUPLICATES: Final = "duplicates"
"""The name under which what is dropped is counted, beside those of the filters."""

_SEGMENTS: Final = 16
"""About how many segments a store has, at the most."""

_TIME_BYTES: Final = 8


def encode_times(times: Iterable[int]) -> bytes:
    """The state of a group in a segment: the times of its rows that came out, ascending, each i64 little-endian."""
    ordered = sorted(times)
    return struct.pack(f"<{len(ordered)}q", *ordered)


def decode_times(state: bytes) -> list[int]:
    """The inverse of `encode_times`."""
    return list(struct.unpack(f"<{len(state) // _TIME_BYTES}q", state))


@dataclass(frozen=True, kw_only=True)
class DropDuplicates(Operation):
    """An operation that lets a row through if none of its key came out whose time is less than `within_ms` away.

    The key of a state is the segment of the times, and the group. So what is over is a prefix of the store, and a row's
    neighbours in time are found under three keys at the most: no segment is shorter than `within_ms`.

    Args:
        within_ms: two rows of a key that come out are at least so far apart.
        columns: that come out, the key's among them.
        stored: the signature of a store that holds what was written before; None for a store that begins empty.
    """

    timed: ClassVar[bool] = True

    within_ms: int
    columns: tuple[str, ...]
    event_time: EventTime
    stored: StoreSignature | None = None

    @property
    def text(self) -> str:
        return f"{self._meaning} (counted as {DUPLICATES} where dropped)"

    @property
    def _meaning(self) -> str:
        """What the bytes of a state depend on."""
        return f"drop_duplicates({self.event_time.column}, within {duration_text(self.within_ms)})"

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        for name, kind in without_json_type(schema, self.columns):
            raise ConfigurationError(
                f"drop_duplicates() writes all columns, and {name!r} of type {kind} cannot be written: "
                f"make a text of it, such as with_column({name!r}, 'to_json({name})'), of bytes 'base64({name})'."
            )
        return StoreSignature(
            key=key_name,
            key_type=type_name(key_type),
            operation="drop_duplicates",
            window=self._meaning,
            segment_ms=self.segments.length_ms,
        )

    def going_on(self, signature: StoreSignature) -> DropDuplicates:
        return dataclasses.replace(self, stored=signature)

    @property
    def segments(self) -> TimeSegments:
        if self.stored is not None and self.stored.segment_ms is not None:
            return TimeSegments(self.stored.segment_ms)
        return TimeSegments(max(self.within_ms, -(-(self.within_ms + self.event_time.delay_ms) // _SEGMENTS)))

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        return super().place(batch, self.event_time.delay_ms)

    def comes_in_time(self, event_ms: Ints, marks: Ints, side: int | Ints = 0) -> npt.NDArray[np.bool_]:
        """See `Operation.comes_in_time`: a row is late when its time lies before the watermark.

        The store has forgotten by then what it would have to be compared with.
        """
        return event_ms >= marks

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        return groups_of(keys)

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        first = FirstRows(self, batch)
        return first.apply(dict(zip(first.keys, state.get_many(first.keys), strict=True)))

    def fitted(self, batch: Batch, changes: Changes, state: StoreReader, limits: Limits, tolerant: bool) -> Changes:
        """See `Operation.fitted`: in the place of a row that is too large another of its key may come out."""
        rows, failed = batch.rows, list[FunctionError]()
        while large := self._too_large(rows, changes, limits):
            if not tolerant:
                raise large[0]
            failed += large
            rows = without_records(rows, (error.offset for error in large))
            if rows.num_rows == 0:
                return Changes([], [], failed)
            changes = self.merge(batch.with_rows(rows), KnownState(state.known), tolerant=True)
        if kept := limits.of_state(changes):
            raise first_too_large(rows, dict(zip(self.groups(list(kept)), kept.values(), strict=True)))
        return changes.also_failed(failed)

    @staticmethod
    def _too_large(rows: pa.Table, changes: Changes, limits: Limits) -> list[FunctionError]:
        """The rows that come out and are too large, in the order in which they do."""
        if not limits.of_output(changes.output):
            return []
        offsets = rows.column("__offset")
        found = {
            offset: reason
            for offset, pair in zip(changes.output_offsets, changes.output, strict=True)
            for reason in limits.of_output([pair]).values()
        }
        return [
            too_large(rows, pc.index(offsets, pa.scalar(offset, pa.int64())).as_py(), reason)
            for offset, reason in found.items()
        ]

    def close(self, batch: Batch, changes: Changes, state: StateReader) -> Changes:
        if batch.after.watermark_ms is None or not changes.state:
            return changes
        begin = time_prefix(self.expired_before_ms(batch.after.watermark_ms))
        new = sorted(changes.state, key=itemgetter(0))
        return dataclasses.replace(changes, state=new[bisect.bisect_left(new, begin, key=itemgetter(0)) :])

    def expired_before_ms(self, watermark_ms: int) -> int:
        return self.segments.start_of(watermark_ms - self.within_ms + 1)

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the times of the rows that came out."""
        return [python_values(bounds_column(times, times).field("start")) for times in map(decode_times, states)]

    def read_states(self, stored: StoredStates) -> Iterator[tuple[str, str, Any]]:
        """See `Operation.read_states`: a window begins with a row that came out, and what comes in it does not."""
        live = [
            (group, start)
            for (_, state), group in zip(stored.items, groups_of([key for key, _ in stored.items]), strict=True)
            for start in decode_times(state)
            if start + self.within_ms > stored.time.mark_ms
        ]
        if not live:
            return
        groups, starts = [group for group, _ in live], [start for _, start in live]
        bounds = bounds_column(starts, [start + self.within_ms for start in starts])
        yield from window_states(groups, bounds, [{}] * len(groups))


class FirstRows:
    """The rows of a batch, and the keys under which their neighbours in time lie."""

    def __init__(self, operation: DropDuplicates, batch: Batch) -> None:
        rows = batch.rows
        self._operation, self._rows = operation, rows
        self._times: Ints = rows.column(EVENT_MS).to_numpy()
        self._groups = rows.column("__key").combine_chunks()
        segments, reach = operation.segments, operation.within_ms - 1
        self._segments: Ints = segments.starts_of_times(self._times)
        keys = [with_time(self._segments, self._groups)]
        if (seen := batch.before.stream_time_ms) is not None:
            # What is kept is not of later times.
            last = segments.start_of(seen)
            for starts in map(segments.starts_of_times, (self._times - reach, self._times + reach)):
                wanted = (starts != self._segments) & (starts <= last)
                keys.append(with_time(starts[wanted], self._groups.filter(pa.array(wanted))))
        self.keys: list[bytes] = sorted(pa.chunked_array(keys).unique().to_pylist())

    def apply(self, known: Mapping[bytes, bytes | None]) -> Changes:
        """See `Operation.merge`."""
        stored = {key: state for key, state in known.items() if state is not None}
        first = self._first(stored)
        at = np.flatnonzero(first)
        taken = self._rows.take(pa.array(at))
        values = json_rows([(name, taken.column(name).combine_chunks()) for name in self._operation.columns])
        return Changes(
            self._state(at, stored),
            list(zip(taken.column("__key").to_pylist(), values, strict=True)),
            dropped={DUPLICATES: _records(self._rows, ~first, first)},
            output_offsets=taken.column("__offset").to_pylist(),
        )

    def _first(self, stored: Mapping[bytes, bytes]) -> npt.NDArray[np.bool_]:
        """By row, whether it comes out: judged one after the other."""
        encoded = self._groups.dictionary_encode()
        codes = encoded.indices.to_numpy()
        known: dict[int, list[int]] = {}
        if stored:
            numbers = {group: number for number, group in enumerate(encoded.dictionary.to_pylist())}
            # In the order of the segments, so ascending.
            for key in sorted(stored):
                known.setdefault(numbers[groups_of([key])[0]], []).extend(decode_times(stored[key]))
        alone = np.bincount(codes, minlength=len(encoded.dictionary)) == 1
        if known:
            alone[list(known)] = False
        first: npt.NDArray[np.bool_] = alone[codes]
        within, others = self._operation.within_ms, np.flatnonzero(~first)
        for at, code, time in zip(others.tolist(), codes[others].tolist(), self._times[others].tolist(), strict=True):
            times = known.setdefault(code, [])
            place = bisect.bisect_right(times, time)
            if any(abs(other - time) < within for other in times[max(0, place - 1) : place + 1]):
                continue
            times.insert(place, time)
            first[at] = True
        return first

    def _state(self, at: Ints, stored: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes | None]]:
        """What is kept afterwards under each key under which something new is kept."""
        keys = with_time(self._segments[at], self._groups.take(pa.array(at))).to_pylist()
        new: dict[bytes, list[int]] = {}
        for key, time in zip(keys, self._times[at].tolist(), strict=True):
            new.setdefault(key, []).append(time)
        return [
            (key, encode_times(decode_times(stored[key]) + new[key] if key in stored else new[key]))
            for key in sorted(new)
        ]


def _records(rows: pa.Table, these: npt.NDArray[np.bool_], others: npt.NDArray[np.bool_]) -> int:
    """How many records have a row among these, and none among the others."""
    offsets: Ints = rows.column("__offset").to_numpy()
    return len(np.setdiff1d(offsets[these], offsets[others]))
