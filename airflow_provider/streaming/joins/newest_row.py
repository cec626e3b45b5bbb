"""The newest row of each key of a table, and what a row that changes takes out of a group and brings into one."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.deleted_keys import group_of_deleted, is_deleted_key, place_by_side
from airflow_provider.streaming.joins.join_rows import (
    DELETED,
    FLAGS,
    GONE,
    LEFT,
    NO_ROW,
    ROW,
    KeptRow,
    decode_rows,
    encode_rows,
    python_row,
    rows_of_columns,
)
from airflow_provider.streaming.joins.join_tables import TableRows
from airflow_provider.streaming.json.types import json_schema, type_name, type_names, without_json_type
from airflow_provider.streaming.operations.batch import Changes, Pair, StateReader, StoreReader
from airflow_provider.streaming.operations.limits import Limits, first_too_large, too_large
from airflow_provider.streaming.operations.operation import Batch, Operation

SIGN: Final = "sign__"
"""The column of a group's rows that says whether one is added, 1, or taken out again, -1."""

Change = tuple[bytes, bytes | None, bytes | None]
"""A key whose row is another one, the row before and the row after; None for none."""


@dataclass(frozen=True, kw_only=True)
class NewestRow(Operation):
    """An operation that keeps the newest row of each key, and emits what has changed: a deletion of what is gone.

    By time an older row replaces none, and a deletion is remembered, as of two tables that are joined. Else the last
    row to come is the newest one.

    Args:
        time: by which rows are compared, in words; None where they come in order, because one task writes all of a key.
    """

    columns: tuple[str, ...]
    time: str | None

    @property
    def needs_time(self) -> bool:
        return self.time is not None

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        for name, kind in without_json_type(schema, self.columns):
            raise ConfigurationError(
                f"The column {name!r} of type {kind} cannot be kept of a table: make plain columns of its parts, or a "
                "text with to_json(...), in a select() before."
            )
        return StoreSignature(
            key=key_name,
            key_type=type_name(key_type),
            operation="table",
            join="the last row of each key" if self.time is None else f"the newest row of each key, by {self.time}",
            columns=type_names(schema, self.columns),
        )

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        return place_by_side(batch.with_rows(self._flagged(batch.rows)))

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        changes, changed = self._changed(batch.rows, state)
        return Changes(changes, [(key, None if row is None else b"{%b}" % row[4:]) for key, _, row in changed])

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        return [group_of_deleted(key) if is_deleted_key(key) else key for key in keys]

    @property
    def text(self) -> str:
        return f"keep the {'last' if self.time is None else 'newest'} row of each key"

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        rows = [_there(decode_rows(state)) for state in states]
        return [None if row is None else python_row(row) for row in rows]

    @property
    def _in_group(self) -> tuple[str, ...]:
        """Columns without which a row is as if it were deleted."""
        return ()

    def _changed(self, rows: pa.Table, state: StateReader) -> tuple[list[Pair], list[Change]]:
        """New state, and what has changed."""
        rows = self.with_rows(rows)
        if self.time is not None:
            return TableRows(_there, rows).changed(state)
        given = (rows.column(name).to_pylist() for name in ("__key", FLAGS, ROW))
        last = {key: None if flags & GONE else row for key, flags, row in zip(*given, strict=True)}
        keys = sorted(last)
        before = [_there(decode_rows(kept)) for kept in state.get_many(keys)]
        changed = [(key, old, last[key]) for key, old in zip(keys, before, strict=True) if old != last[key]]
        return [
            (key, None if row is None else encode_rows([KeptRow(0, LEFT, row)])) for key, _, row in changed
        ], changed

    def with_rows(self, rows: pa.Table) -> pa.Table:
        """A batch's rows with `FLAGS` and `ROW`, as `joins.join_rows` describes them."""
        if FLAGS not in rows.schema.names:
            rows = self._flagged(rows)
        columns = [(name, _canonical(rows.column(name).combine_chunks())) for name in self.columns]
        heads = max(len(self._in_group), 1)
        written = rows_of_columns(columns[0], columns[heads:], columns[1:heads])
        gone = pc.not_equal(rows.column(FLAGS), LEFT).combine_chunks()
        return rows.append_column(ROW, pc.if_else(gone, pa.scalar(NO_ROW), written))

    def _flagged(self, rows: pa.Table) -> pa.Table:
        gone = np.zeros(rows.num_rows, bool)
        if DELETED in rows.schema.names:
            gone |= rows.column(DELETED).to_numpy()
        for name in self._in_group:
            gone |= rows.column(name).is_null().to_numpy()
        return rows.append_column(FLAGS, pa.array(np.where(gone, GONE, LEFT).astype(np.uint8)))


@dataclass(frozen=True, kw_only=True)
class RowChanges(NewestRow):
    """An operation that keeps the newest row of each key of a table, and writes what changes to where others keep it.

    What is taken away there is what was brought, byte for byte, whatever a step or a function would make of the old row
    today.
    """

    @abstractmethod
    def _records(self, change: Change, version: int) -> list[Pair]:
        """What a change comes to.

        Args:
            version: that grows with each batch in which something has changed.
        """

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        changes, changed = self._changed(batch.rows, state)
        return Changes(changes, [record for change in changed for record in self._records(change, 0)])

    def fitted(self, batch: Batch, changes: Changes, state: StoreReader, limits: Limits, tolerant: bool) -> Changes:
        """See `Operation.fitted`: a row is judged alone, because what it comes to has another key."""
        large = limits.of(changes)
        if not large:
            return changes
        rows, alone = self.with_rows(batch.rows), []
        for at, (key, row) in enumerate(zip(*(rows.column(name).to_pylist() for name in ("__key", ROW)), strict=True)):
            brought = [] if row == NO_ROW else self._records((key, None, row), 0)
            one = Changes([(key, encode_rows([KeptRow(0, LEFT, row)]))], brought)
            if why := limits.of(one):
                alone.append(too_large(batch.rows, at, next(iter(why.values())), alone=True))
        if not alone or not tolerant:
            raise alone[0] if alone else first_too_large(batch.rows, large)
        # The rest is computed without them.
        return Changes([], [], alone)


@dataclass(frozen=True, kw_only=True)
class GroupChanges(RowChanges):
    """An operation that keeps the newest row of each key of a table, as far as groups are made of it.

    Where a row changes it emits the old one, with the sign -1, to be taken out of its group, and the new one, with the
    sign 1, to be added to its own. A row with null in a column that it is grouped by is in no group.

    Args:
        by: the columns that make the group; the first of `columns`.
    """

    by: tuple[str, ...]

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        kept = super().signature(key_name, key_type, schema)
        return dataclasses.replace(kept, join=f"{kept.join}, for groups by {', '.join(self.by)}")

    def writes(self, key_name: str, schema: pa.Schema) -> str:
        return json_schema(pa.schema([(SIGN, pa.int64()), *(schema.field(name) for name in self.columns)]))

    def _records(self, change: Change, version: int) -> list[Pair]:
        """See `RowChanges`: the old row comes before the new one."""
        _, old, new = change
        return [_signed(sign, row) for sign, row in ((-1, old), (1, new)) if row is not None]

    @property
    def text(self) -> str:
        return f"{super().text}, write what changes in groups by {', '.join(self.by)}"

    @property
    def _in_group(self) -> tuple[str, ...]:
        return self.by


def _there(sides: Sequence[KeptRow | None]) -> bytes | None:
    """The row of the only side; None where there is none, or it is gone."""
    row = sides[LEFT] if sides else None
    return None if row is None or row.gone else row.row


def _signed(sign: int, row: bytes) -> tuple[bytes, bytes]:
    """A record for the group of a row, whose first members, those of the group, are its key."""
    end = 4 + int.from_bytes(row[:4], "little")
    return b"{%b}" % row[4:end], b'{"%b":%d,%b}' % (SIGN.encode(), sign, row[4:])


def _canonical(column: pa.Array) -> pa.Array:
    """One text of equal values: -0.0 is 0.0, as in Spark's ``groupBy``."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column
