"""Rows of two tables with the same key: a table again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.streaming.event_time import EVENT_MS
from airflow_provider.streaming.operations.join_rows import FLAGS, GONE, LEFT, RIGHT, ROW, How, JoinedColumns, JoinRows
from airflow_provider.streaming.operations.join_state import KeptRow, decode_rows, encode_rows, python_row
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.type_name import type_name, type_names

__all__ = ["TableTableJoin"]


@dataclass(frozen=True, kw_only=True)
class TableTableJoin:
    """An operation that keeps the newest row of each side by key, and emits what becomes of the two.

    A row that is older than the one that is kept changes nothing. What has changed is emitted once per key and
    micro-batch; a key that has no row any more gets a deletion.

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

    def group(self, key_name: str, rows: pa.Table) -> TableRows:
        """See `Operation.group`.

        Args:
            key_name: the key column's name.
            rows: columns ``__key``, and those of `decoder`.
        """
        return TableRows(self, rows)

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the rows of both sides; None where there is none."""
        found = []
        for state in states:
            sides: list[Any] = [None, None]
            for kept in decode_rows(state):
                sides[kept.side] = python_row(kept.row)
            found.append({"left": sides[LEFT], "right": sides[RIGHT]})
        return found

    def result(self, sides: Sequence[KeptRow | None]) -> bytes | None:
        """What a key's rows come to; None where it is not in the result."""
        left, right = sides
        if left is not None and right is not None:
            return self.joined.both(left.row, right.row)
        if left is not None and self.how != "inner":
            return self.joined.one(LEFT, left.row)
        if right is not None and self.how == "outer":
            return self.joined.one(RIGHT, right.row)
        return None


class TableRows:
    """See `GroupedRows`."""

    def __init__(self, operation: TableTableJoin, rows: pa.Table) -> None:
        self._operation = operation
        names = ("__key", FLAGS, EVENT_MS, ROW)
        self._columns: list[list[Any]] = [rows.column(name).to_pylist() for name in names]
        self.keys: list[bytes] = sorted(set(self._columns[0]))

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """See `GroupedRows.apply`."""
        kept = {key: _sides(state) for key, state in zip(self.keys, old, strict=True)}
        result = self._operation.result
        before = {key: result(sides) for key, sides in kept.items()}
        for key, flags, time, row in zip(*self._columns, strict=True):
            sides, side = kept[key], flags & RIGHT
            known = sides[side]
            if known is None or time >= known.time:
                sides[side] = None if flags & GONE else KeptRow(time, flags, row)
        state, output = list[tuple[bytes, bytes | None]](), list[tuple[bytes, bytes | None]]()
        for key, was in zip(self.keys, old, strict=True):
            now = encode_rows(found for found in kept[key] if found is not None)
            if now != was:
                state.append((key, now))
            after = result(kept[key])
            if after != before[key]:
                output.append((key, after))
        return Changes(state, output)


def _sides(state: bytes | None) -> list[KeptRow | None]:
    sides: list[KeptRow | None] = [None, None]
    for kept in decode_rows(state):
        sides[kept.side] = kept
    return sides
