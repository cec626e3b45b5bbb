"""Rows of a stream, each with the row of a table that has its key."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, Literal

import pyarrow as pa

from airflow_provider.changelog.signature import StoreSignature
from airflow_provider.streaming.event_time import EVENT_MS
from airflow_provider.streaming.operations.join_rows import (
    FLAGS,
    GONE,
    LEFT,
    RIGHT,
    ROW,
    UNKEYED,
    JoinedColumns,
    JoinRows,
)
from airflow_provider.streaming.operations.join_state import KeptRow, decode_rows, encode_rows, python_row
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.type_name import type_name

__all__ = ["StreamTableJoin"]

_TIME: Final = itemgetter(0)


@dataclass(frozen=True, kw_only=True)
class StreamTableJoin:
    """An operation that keeps a table's rows by key, and emits the stream's rows with those of the table.

    A row of the table that is older than the newest of its key by more than `history_ms` says nothing any more: so
    without a history an older row never replaces a newer one, and a row of the stream meets the newest. With a history
    it meets the last one that is not later than itself.

    Args:
        joined: the columns.
        how: ``inner`` emits only rows of the stream for which the table has one, ``left`` all.
        history_ms: for how long a key's earlier rows are kept, counted back from its newest.
    """

    joined: JoinedColumns
    how: Literal["inner", "left"]
    history_ms: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the rows that it emits."""
        return self.joined.names

    @property
    def decoder(self) -> JoinRows:
        """Reads the records' values."""
        return JoinRows()

    def signature(self, key_name: str, key_type: pa.DataType, schema: pa.Schema) -> StoreSignature:
        """See `Operation.signature`; `how` and the stream's columns may change, because nothing is kept of them.

        Args:
            key_name: the key column's name.
            key_type: its type before it became text.
            schema: of the rows that it emits.
        """
        kept = (self.joined.on, *self.joined.right)
        return StoreSignature(
            key=key_name,
            key_type=type_name(key_type),
            operation="join",
            join="a table's rows for a stream",
            columns={name: type_name(schema.field(name).type) for name in kept},
        )

    def going_on(self, signature: StoreSignature) -> StreamTableJoin:
        """See `Operation.going_on`: rows say themselves what they hold."""
        return self

    def group(self, key_name: str, rows: pa.Table) -> StreamTableRows:
        """See `Operation.group`.

        Args:
            key_name: the key column's name.
            rows: columns ``__key``, and those of `decoder`.
        """
        return StreamTableRows(self, rows)

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the table's newest row; with a history all that are kept, and from when on."""
        kept = [decode_rows(state) for state in states]
        if not self.history_ms:
            return [python_row(versions[-1].row) for versions in kept]
        return [
            [{"from_ms": v.time, "row": None if v.gone else python_row(v.row)} for v in versions] for versions in kept
        ]

    def with_version(self, versions: list[KeptRow], new: KeptRow) -> list[KeptRow]:
        """What is kept of a key after another row of the table.

        Args:
            versions: what was kept, by time, each time once.
            new: the row.
        """
        at = bisect.bisect_left(versions, new.time, key=_TIME)
        same = at < len(versions) and versions[at].time == new.time
        after = [*versions[:at], new, *versions[at + same :]]
        # What was there when the history begins is a part of it.
        first = bisect.bisect_right(after, after[-1].time - self.history_ms, key=_TIME) - 1
        left = after[max(first, 0) :]
        return [] if all(version.gone for version in left) else left


class StreamTableRows:
    """See `GroupedRows`."""

    def __init__(self, operation: StreamTableJoin, rows: pa.Table) -> None:
        self._operation = operation
        names = ("__key", FLAGS, EVENT_MS, ROW)
        self._columns: list[list[Any]] = [rows.column(name).to_pylist() for name in names]
        # In the order of the store's keys: its reads and its memtable's inserts go through the blocks once.
        self.keys: list[bytes] = sorted(set(self._columns[0]))

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """See `GroupedRows.apply`: row after row, in the order of the topic."""
        operation = self._operation
        both, one = operation.joined.both, operation.joined.one
        is_left, history = operation.how == "left", operation.history_ms > 0
        kept = {key: decode_rows(state) for key, state in zip(self.keys, old, strict=True) if state is not None}
        changed = dict[bytes, list[KeptRow]]()
        output = list[tuple[bytes, bytes | None]]()
        for key, flags, time, row in zip(*self._columns, strict=True):
            if flags & RIGHT:
                changed[key] = kept[key] = operation.with_version(kept.get(key, []), KeptRow(time, flags, row))
                continue
            versions = kept.get(key)
            if versions and not flags & UNKEYED:
                found = bisect.bisect_right(versions, time, key=_TIME) - 1 if history else len(versions) - 1
                if found >= 0 and not versions[found].flags & GONE:
                    output.append((key, both(row, versions[found].row)))
                    continue
            if is_left:
                output.append((key, one(LEFT, row)))
        before = dict(zip(self.keys, old, strict=True))
        state = [(key, encode_rows(changed[key])) for key in self.keys if key in changed]
        return Changes([pair for pair in state if pair[1] != before[pair[0]]], output)
