"""Rows of two tables with the same key: a table again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider.streaming.joins.deleted_keys import (
    deleted_key,
    group_of_deleted,
    listed,
    over_keys,
    over_until,
    place_by_side,
    times_before,
)
from airflow_provider.streaming.joins.join_operation import JoinOperation
from airflow_provider.streaming.joins.join_rows import (
    FLAGS,
    GONE,
    LEFT,
    RIGHT,
    ROW,
    How,
    JoinedColumns,
    KeptRow,
    decode_rows,
    encode_rows,
    python_row,
)
from airflow_provider.streaming.operations.batch import Changes, Pair, StateReader
from airflow_provider.streaming.operations.operation import Batch
from airflow_provider.streaming.terms.event_time import EVENT_MS


@dataclass(frozen=True, kw_only=True)
class TableTableJoin(JoinOperation):
    """An operation that keeps the newest row of each side by key, and emits what becomes of the two.

    A row that is older than the one that is kept, or than the deletion that is remembered, changes nothing. What has
    changed is emitted once per key and micro-batch; a key that has no row any more gets a deletion.

    Args:
        how: ``inner`` has keys that are in both tables, ``left`` those of the left one, ``outer`` those of any.
    """

    joined: JoinedColumns
    how: How

    @property
    def kept(self) -> str:
        # What was not emitted under another `how` would be missing in the result.
        return f"{self.how} join of two tables"

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        """See `Operation.place`: each table has a time of its own."""
        return place_by_side(batch)

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        changes, changed = TableRows(self.result, batch.rows).changed(state)
        return Changes(changes, [(key, after) for key, _, after in changed])

    @property
    def text(self) -> str:
        return self.kept

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
    """A batch's rows of both tables, or of one, which is the left one.

    Args:
        result: what a key's rows come to, by side; None where there is nothing.
        rows: as `place_by_side` gives them.
    """

    def __init__(self, result: Callable[[Sequence[KeptRow | None]], bytes | None], rows: pa.Table) -> None:
        self._result = result
        names = ("__key", FLAGS, EVENT_MS, ROW)
        self._columns: list[list[Any]] = [rows.column(name).to_pylist() for name in names]
        self._times = [times_before(rows, side) for side in (LEFT, RIGHT)]
        found = zip(*self._columns[:3], strict=True)
        self._deleted = {deleted_key(flags & RIGHT, time, key) for key, flags, time in found if flags & GONE}
        self._groups = set(self._columns[0])

    def changed(self, state: StateReader) -> tuple[list[Pair], list[tuple[bytes, bytes | None, bytes | None]]]:
        """New state, and by key whose result is another one, the one before and the one after."""
        was = self._read(state)
        kept = {key: _sides(was[key]) for key in was if key in self._groups}
        result = self._result
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
        changes = [(key, new[key]) for key in was if new[key] != was[key]]
        results = ((key, before[key], result(sides)) for key, sides in kept.items())
        return changes, [change for change in results if change[1] != change[2]]

    def _read(self, state: StateReader) -> dict[bytes, bytes | None]:
        """What is kept of the rows' keys, and of those whose deletions are over after the batch."""
        own = sorted(self._groups | self._deleted)
        for side, times in enumerate(self._times):
            if times[0] != times[-1]:
                self._deleted |= over_keys(state, side, over_until(times[-1]))
        self._groups.update(map(group_of_deleted, self._deleted))
        keys = own + sorted((self._deleted | self._groups).difference(own))
        return dict(zip(keys, state.get_many(keys), strict=True))

    def _known(self, sides: Sequence[KeptRow | None], side: int, at: int) -> KeptRow | None:
        """What is known of a key's side before a row of the batch, or with -1 after the last."""
        known = sides[side]
        return None if known is not None and known.gone and known.time <= over_until(self._times[side][at]) else known


def _sides(state: bytes | None) -> list[KeptRow | None]:
    sides: list[KeptRow | None] = [None, None]
    for kept in decode_rows(state):
        sides[kept.side] = kept
    return sides
