"""What a keyed operation of event time is to the active step, beside what every operation is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from airflow_provider.state.time_segments import TimeSegments
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.stream_time import StreamTime

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FurtherReader",
    "PlacingOperation",
    "RangeReader",
    "StoreRange",
    "TimedOperation",
    "TimedRows",
    "late_records",
]

StoreRange = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]
"""The keys and values of the store from one key (included) to another (excluded)."""


@dataclass(frozen=True, kw_only=True)
class TimedRows:
    """A batch's rows in time.

    Args:
        rows: for `Operation.group`: ``__key`` is what the operation keeps state by.
        late: how many records came too late and are not among them.
        before: the time of the task before the batch.
        after: the time of the task after it.
    """

    rows: pa.Table
    late: int
    before: StreamTime
    after: StreamTime


def late_records(rows: pa.Table, in_time: pa.Table) -> int:
    """How many records came too late: those of which no row is left.

    Args:
        rows: with ``__offset``; a record may have several.
        in_time: those among them that came in time.
    """
    all_, left = (len(np.unique(table.column("__offset").to_numpy())) for table in (rows, in_time))
    return all_ - left


@runtime_checkable
class PlacingOperation(Protocol):
    """An operation that says itself how its rows move time."""

    def place(self, rows: pa.Table, before: StreamTime) -> TimedRows:
        """See `TimedOperation.place`."""


@runtime_checkable
class TimedOperation(Protocol):
    """An operation whose keys begin with a time (`state.time_segments`), and whose state ends when that is over."""

    @property
    def segments(self) -> TimeSegments:
        """How the keys' times are cut: what has ended is dropped by the segment."""

    def place(self, rows: pa.Table, before: StreamTime) -> TimedRows:
        """Leave out the rows that are late, and give the others the keys of their windows.

        Args:
            rows: columns ``__key``, ``__offset`` and ``__event_ms``, and those of the operation, in the order of their
                offsets; at least one.
            before: the time of the task before them.
        """

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        """The groups of some keys, in their order."""

    def close(self, changes: Changes, placed: TimedRows, kept: StoreRange, key_name: str) -> Changes:
        """What is written of a batch's changes: nothing is kept of what ended in it.

        Args:
            changes: of the batch's keys.
            placed: the batch's rows in time.
            kept: reads the store as it was before the batch.
            key_name: the key column's name, for the output.
        """

    def expired_before_ms(self, watermark_ms: int) -> int:
        """Before which time the store is dropped: the start of a segment."""

    def read_states(
        self, items: Sequence[tuple[bytes, bytes]], schema: pa.Schema, time: StreamTime
    ) -> list[tuple[str, str, Any]]:
        """The windows that are open, as people read them.

        Args:
            items: keys and values of the store.
            schema: of the rows that `group` gets.
            time: of the task.

        Returns:
            The group, the key of the window's output records, and its state with its ``window``.
        """


@runtime_checkable
class RangeReader(Protocol):
    """Grouped rows that need more of the store than the values of their keys."""

    def read(self, kept: StoreRange) -> None:
        """Read it; before `GroupedRows.apply`.

        Args:
            kept: reads the store as it was before the batch.
        """


@runtime_checkable
class FurtherReader(Protocol):
    """Grouped rows that know only from what they have read which other keys they need."""

    def further_keys(self, old: Sequence[bytes | None]) -> Sequence[bytes]:
        """Those keys, which come behind the others in `GroupedRows.keys` from then on; after `RangeReader.read`.

        It is asked again with their values, until there are no more.

        Args:
            old: the values of the keys so far.
        """
