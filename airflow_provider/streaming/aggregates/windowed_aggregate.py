"""Aggregations by key and window of one size: which windows rows fall in, and how one stands in keys and outputs."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.state.time_segments import PREFIX_BYTES, TimeSegments, time_of, time_prefix, times_of
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.aggregates.window_process import WindowCalls
from airflow_provider.streaming.json.json_rows import iso_times, json_rows, key_columns, python_values
from airflow_provider.streaming.json.types import json_schema
from airflow_provider.streaming.operations.batch import Changes, StateReader
from airflow_provider.streaming.operations.operation import Batch, StoredStates
from airflow_provider.streaming.operations.process import process_text
from airflow_provider.streaming.operations.stream_time import Ints
from airflow_provider.streaming.terms.event_time import EVENT_MS
from airflow_provider.streaming.terms.windows import SessionWindow, Window

_SIGN = np.uint64(2**63)


def last_starts(windows: Window, event_ms: Ints) -> Ints:
    """By row, the start of the last window that it falls in."""
    return (event_ms - windows.offset_ms) // windows.slide_ms * windows.slide_ms + windows.offset_ms


def starts_of_rows(windows: Window, event_ms: Ints) -> tuple[Ints, Ints]:
    """The windows that each row falls in.

    Args:
        event_ms: of the rows, epoch ms; may be negative.

    Returns:
        The row's index and the window's start, once for each row and window: in the order of the rows, and of a row's
        windows the latest first.
    """
    last = last_starts(windows, event_ms)
    if windows.slide_ms == windows.size_ms:
        return np.arange(len(event_ms)), last
    number = -(-windows.size_ms // windows.slide_ms)
    starts = (last[:, None] - np.arange(number) * windows.slide_ms).ravel()
    rows = np.repeat(np.arange(len(event_ms)), number)
    within = starts + windows.size_ms > event_ms[rows]
    return rows[within], starts[within]


def with_time(times: Ints, groups: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Keys that begin with a time (`state.time_segments`)."""
    prefixes = np.ascontiguousarray((times.view(np.uint64) ^ _SIGN).astype(">u8"))
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(PREFIX_BYTES), len(times), [None, pa.py_buffer(prefixes.tobytes())]
    )
    return pc.binary_join_element_wise(fixed.cast(pa.binary()), groups, pa.scalar(b"", pa.binary()))


def groups_of(keys: Sequence[bytes]) -> list[bytes]:
    """What follows the time in keys."""
    return [key[PREFIX_BYTES:] for key in keys]


def window_column(keys: Sequence[bytes], size_ms: int) -> pa.StructArray:
    """The windows of keys that begin with their start, as PySpark has them: a struct of `start` and `end`."""
    starts = times_of(keys)
    return bounds_column(starts, starts + size_ms)


def windows_of_keys(keys: Sequence[bytes], size_ms: int) -> pa.DictionaryArray:
    """The same, each window once: a batch has many keys, and few windows."""
    starts, places = np.unique(times_of(keys), return_inverse=True)
    return pa.DictionaryArray.from_arrays(pa.array(places), bounds_column(starts, starts + size_ms))


def bounds_column(starts: Ints | Sequence[int], ends: Ints | Sequence[int]) -> pa.StructArray:
    """Windows of any starts and ends, epoch ms, as `window_column` has them."""
    kind = pa.timestamp("ms", tz="UTC")
    columns = [pa.array(times, pa.int64()).cast(kind) for times in (starts, ends)]
    return pa.StructArray.from_arrays(columns, ["start", "end"])


def output_keys(groups: Sequence[bytes], windows: pa.StructArray | pa.DictionaryArray) -> list[bytes]:
    """The keys of output records: the group, ``@``, and the window's start in ISO 8601, which holds no ``@``.

    Args:
        windows: as `window_column` or `windows_of_keys` gives them.
    """
    few = isinstance(windows, pa.DictionaryArray)
    starts = iso_times((windows.dictionary if few else windows).field("start")).to_pylist()
    ends = [f"@{start}".encode() for start in starts]
    places = windows.indices.to_pylist() if few else range(len(ends))
    return [group + ends[place] for group, place in zip(groups, places, strict=True)]


WINDOW: Final = "window"
"""The output's field that holds the window, as in Spark."""

Emit = Literal["update", "close"]

_SEGMENTS: Final = 16
"""About how many segments a store of windows has."""


def window_states(
    groups: Sequence[bytes], windows: pa.StructArray, states: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, str, Any]]:
    """What people see of windows, as `Operation.read_states` gives it: each state with its ``window``."""
    for group, name, window, state in zip(
        groups, output_keys(groups, windows), python_values(windows), states, strict=True
    ):
        yield group.decode(), name.decode(), {WINDOW: window, **state}


@dataclass(frozen=True, kw_only=True)
class AggregationInWindows(Aggregation):
    """An aggregation by key and window.

    Args:
        emit: ``update`` emits each changed window once per micro-batch, ``close`` each window once, when it is over.
        calls: what is called with the rows of a window that closes; None where its results are written.
    """

    timed: ClassVar[bool] = True

    windows: Window | SessionWindow
    delay_ms: int
    emit: Emit = "update"
    calls: WindowCalls | None = None

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        plain, segments = super().signature(key_name, key_type, schema), self.segments
        length_ms = None if segments is None else segments.length_ms
        return dataclasses.replace(plain, window=self.windows.text, segment_ms=length_ms, emit=self.emit)

    @property
    def _between_keys_and_results(self) -> Sequence[tuple[str, pa.DataType]]:
        return [(WINDOW, bounds_column([], []).type)]

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        return groups_of(keys)

    def writes(self, key_name: str, schema: pa.Schema) -> str:
        """See `Operation.writes`: the key as text, the window, and the results or what the function returns."""
        if self.calls is None:
            return super().writes(key_name, schema)
        keys = [(name, pa.string()) for name in self.written_keys(key_name)]
        return f"{json_schema(pa.schema([*keys, *self._between_keys_and_results]))}, {self.calls.schema}"

    def rows_of_windows(
        self,
        key_name: str,
        keys: Sequence[bytes],
        windows: pa.StructArray | pa.DictionaryArray,
        results: list[tuple[str, pa.Array]],
    ) -> list[tuple[bytes, bytes]]:
        """What comes out of some windows, under keys that begin with their starts."""
        groups = groups_of(keys)
        if self.calls is None:
            names = key_columns(key_name, self.by, pa.array(groups, pa.binary()))
            return list(zip(keys, json_rows([*names, (WINDOW, windows), *results]), strict=True))
        if isinstance(windows, pa.DictionaryArray):
            windows = windows.dictionary.take(windows.indices)
        called = self.calls.put_out(key_name, groups, windows, results[0][1])
        return [(key, row) for key, rows in zip(keys, called, strict=True) for row in rows]

    @property
    def text(self) -> str:
        when = "when it changes" if self.emit == "update" else "when it is over"
        what = super().text if self.calls is None else process_text(self.calls.function, super().columns)
        return f"{what} by {self.windows.text}, each {when}"


@dataclass(frozen=True, kw_only=True)
class WindowedAggregation(AggregationInWindows):
    """An aggregation by key and window of one size; the key of a state is the window's start and the group."""

    windows: Window

    @property
    def wants_passed(self) -> bool:
        """See `Operation.wants_passed`: of the windows that a row lies in some may be closed."""
        return self.windows.slide_ms < self.windows.size_ms

    @property
    def segments(self) -> TimeSegments:
        slide = self.windows.slide_ms
        if self.stored is not None and self.stored.segment_ms is not None:
            return TimeSegments(self.stored.segment_ms, self.windows.offset_ms)
        slides = -(-(self.windows.size_ms + self.delay_ms) // (_SEGMENTS * slide))
        return TimeSegments(slides * slide, self.windows.offset_ms)

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        rows = batch.rows
        event_ms = rows.column(EVENT_MS).to_numpy()
        marks, after = batch.watermarks(self.delay_ms)
        at, starts = starts_of_rows(self.windows, event_ms)
        of_windows = rows if len(at) == rows.num_rows else rows.take(pa.array(at))
        keys = with_time(starts, of_windows.column("__key").combine_chunks())
        of_windows = of_windows.set_column(rows.schema.get_field_index("__key"), "__key", keys)
        return batch.placed(of_windows, after, starts + self.windows.size_ms > batch.own(marks)[at])

    def comes_in_time(self, event_ms: Ints, marks: Ints, side: int | Ints = 0) -> npt.NDArray[np.bool_]:
        """See `Operation.comes_in_time`: a row is late when the last window that its time lies in is closed."""
        return last_starts(self.windows, event_ms) + self.windows.size_ms > marks

    def output(
        self, key_name: str, keys: Sequence[bytes], column: pa.Array, results: list[tuple[str, pa.Array]]
    ) -> list[tuple[bytes, bytes]]:
        """See `Aggregation.output`; under the store's keys, which `close` replaces."""
        return [] if self.emit == "close" else self._rows(key_name, keys, results)

    def _rows(
        self, key_name: str, keys: Sequence[bytes], results: list[tuple[str, pa.Array]]
    ) -> list[tuple[bytes, bytes]]:
        return self.rows_of_windows(key_name, keys, windows_of_keys(keys, self.windows.size_ms), results)

    def close(self, batch: Batch, changes: Changes, state: StateReader) -> Changes:
        before_ms = batch.before.watermark_ms
        # There is none while a task before an internal topic has told nothing.
        end = self._first_open(batch.after.mark_ms)
        new = sorted(changes.state, key=itemgetter(0))
        number = bisect.bisect_left(new, end, key=itemgetter(0))
        output = changes.output
        if self.emit == "close":
            begin = b"" if before_ms is None else self._first_open(before_ms)
            closed = dict(state.range(begin, end)) if begin < end else {}
            closed.update((key, value) for key, value in new[:number] if value is not None)
            keys = sorted(closed)
            results = self.results([closed[key] for key in keys], batch.rows.schema)
            output = list(self._rows(batch.key_name, keys, results)) if keys else []
        return Changes(new[number:], self._for_sink(output), changes.failed)

    def _first_open(self, watermark_ms: int) -> bytes:
        """Before which all keys are of windows that are closed."""
        return time_prefix(watermark_ms - self.windows.size_ms + 1)

    def _for_sink(self, output: Sequence[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
        if not output:
            return []
        keys = [key for key, _ in output]
        names = output_keys(groups_of(keys), windows_of_keys(keys, self.windows.size_ms))
        return [(name, value) for name, (_, value) in zip(names, output, strict=True)]

    def expired_before_ms(self, watermark_ms: int) -> int:
        return self.segments.start_of(watermark_ms - self.windows.size_ms + self.windows.slide_ms)

    def read_states(self, stored: StoredStates) -> Iterator[tuple[str, str, Any]]:
        """See `Operation.read_states`: the windows that are open, each with its ``window``."""
        live = [(k, v) for k, v in stored.items if time_of(k) + self.windows.size_ms > stored.time.mark_ms]
        if not live:
            return
        keys = [key for key, _ in live]
        states = self.decode_states([value for _, value in live], stored.schema)
        yield from window_states(groups_of(keys), window_column(keys, self.windows.size_ms), states)
