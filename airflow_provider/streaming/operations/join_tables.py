"""Rows of two tables with the same key: a table again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.streaming.event_time import EVENT_MS
from airflow_provider.streaming.operations.deleted_keys import (
    deleted_key,
    group_of_deleted,
    listed,
    over_keys,
    over_until,
    place_by_side,
    times_before,
)
from airflow_provider.streaming.operations.join_rows import FLAGS, GONE, LEFT, RIGHT, ROW, How, JoinedColumns, JoinRows
from airflow_provider.streaming.operations.join_state import KeptRow, decode_rows, encode_rows, python_row
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.operations.timed_rows import StoreRange, TimedRows
from airflow_provider.streaming.operations.type_name import type_name, type_names

__all__ = ["TableTableJoin"]


@dataclass(frozen=True, kw_only=True)
class TableTableJoin:
    """An operation that keeps the newest row of each side by key, and emits what becomes of the two.

    A row that is older than the one that is kept, or than the deletion that is remembered, changes nothing. What has
    changed is emitted once per key and micro-batch; a key that has no row any more gets a deletion.

    Args:
        joined: the columns.
        how: ``inner`` has keys that are in both tables, ``left`` those of the left one, ``outer`` those of any.
    """

    joined: JoinedColumns
    how: How

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the rows that it emits."""
        return self.joined.names

    @property
    def decoder(self) -> JoinRows:
        """Reads the records' values."""
        return JoinRows()

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`.

        Args:
            key_name: the key column's name.
            key_type: its type before it became text.
            schema: of the rows that it emits.
        """
        return StoreSignature(
            key=key_name,
            key_type=type_name(key_type),
            operation="join",
            # What was not emitted under another `how` would be missing in the result.
            join=f"{self.how} join of two tables",
            columns=type_names(schema, self.columns),
        )

    def going_on(self, signature: StoreSignature) -> TableTableJoin:
        """See `Operation.going_on`: rows say themselves what they hold."""
        return self

    def place(self, rows: pa.Table, before: StreamTime) -> TimedRows:
        """See `PlacingOperation`: each table has a time of its own."""
        return place_by_side(rows, before)

    def group(self, key_name: str, rows: pa.Table) -> TableRows:
        """See `Operation.group`.

        Args:
            key_name: the key column's name.
            rows: as `place` gives them.
        """
        return TableRows(self, rows)

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the rows of both sides; None where there is none, and for both sides."""
        found = list[Any]()
        for state in states:
            sides: list[Any] = [None, None]
            for kept in decode_rows(state):
                sides[kept.side] = None if kept.gone else python_row(kept.row)
            found.append({"left": sides[LEFT], "right": sides[RIGHT]} if any(sides) else None)
        return found

    def result(self, sides: Sequence[KeptRow | None]) -> bytes | None:
        """What a key's rows come to; None where it is not in the result."""
        left, right = (None if row is None or row.gone else row for row in sides)
        if left is not None and right is not None:
            return self.joined.both(left.row, right.row)
        if left is not None and self.how != "inner":
            return self.joined.one(LEFT, left.row)
        if right is not None and self.how == "outer":
            return self.joined.one(RIGHT, right.row)
        return None


class TableRows:
    """See `GroupedRows`, `RangeReader` and `FurtherReader`."""

    def __init__(self, operation: TableTableJoin, rows: pa.Table) -> None:
        self._operation = operation
        names = ("__key", FLAGS, EVENT_MS, ROW)
        self._columns: list[list[Any]] = [rows.column(name).to_pylist() for name in names]
        self._times = [times_before(rows, side) for side in (LEFT, RIGHT)]
        found = zip(*self._columns[:3], strict=True)
        self._deleted = {deleted_key(flags & RIGHT, time, key) for key, flags, time in found if flags & GONE}
        self._groups = set(self._columns[0])
        self.keys: list[bytes] = sorted(self._groups | self._deleted)

    def read(self, kept: StoreRange) -> None:
        """See `RangeReader`: the deletions that are over after the batch."""
        for side, times in enumerate(self._times):
            if times[0] != times[-1]:
                self._deleted |= over_keys(kept, side, over_until(times[-1]))

    def further_keys(self, old: Sequence[bytes | None]) -> list[bytes]:
        """See `FurtherReader`: of what `read` found, with the keys that were deleted."""
        self._groups.update(map(group_of_deleted, self._deleted))
        self.keys += sorted((self._deleted | self._groups) - set(self.keys))
        return self.keys[len(old) :]

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """See `GroupedRows.apply`."""
        was = dict(zip(self.keys, old, strict=True))
        kept = {key: _sides(was[key]) for key in self.keys if key in self._groups}
        result = self._operation.result
        before = {key: result(sides) for key, sides in kept.items()}
        for at, (key, flags, time, row) in enumerate(zip(*self._columns, strict=True)):
            sides, side = kept[key], flags & RIGHT
            known = self._known(sides, side, at)
            if known is None or time >= known.time:
                sides[side] = KeptRow(time, flags, row)
        rows = {
            key: [found for side in (LEFT, RIGHT) if (found := self._known(sides, side, -1)) is not None]
            for key, sides in kept.items()
        }
        new = {key: encode_rows(found) for key, found in rows.items()} | listed(self._deleted, rows)
        # In the order of the keys, as the digest needs them.
        state = [(key, new[key]) for key in self.keys if new[key] != was[key]]
        after = ((key, result(sides)) for key, sides in kept.items())
        return Changes(state, [(key, value) for key, value in after if value != before[key]])

    def _known(self, sides: Sequence[KeptRow | None], side: int, at: int) -> KeptRow | None:
        """What is known of a key's side before a row of the batch, or with -1 after the last."""
        known = sides[side]
        return None if known is not None and known.gone and known.time <= over_until(self._times[side][at]) else known


def _sides(state: bytes | None) -> list[KeptRow | None]:
    sides: list[KeptRow | None] = [None, None]
    for kept in decode_rows(state):
        sides[kept.side] = kept
    return sides
