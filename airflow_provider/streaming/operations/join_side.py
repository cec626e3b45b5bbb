"""The rows of one side of a join, on their way to the topic in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.event_time import EVENT_MS
from airflow_provider.streaming.operations.join_rows import GONE, UNKEYED, JoinRows, rows_of_columns
from airflow_provider.streaming.operations.json_type import without_json_type
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.type_name import type_name

__all__ = ["DELETED", "JoinSide"]

DELETED: Final = "__deleted"
"""The column of a table's rows in a worker that says whether the record deletes its key."""


@dataclass(frozen=True, kw_only=True)
class JoinSide:
    """An operation without state: every row becomes a record as `operations.join_rows` describes it.

    Args:
        side: left or right, as in the flags.
        on: the column that is joined on.
        others: the other columns that go on.
        table: whether the rows are those of a table, among them deletions.
        time: of a table, what its rows' times are, in words; None where they come from another join.
    """

    side: int
    on: str
    others: tuple[str, ...]
    table: bool = False
    time: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads, that of the key with its own type among them."""
        return (self.on, *self.others)

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`; there is no state, but records under another key would mix with those on the way.

        Raises:
            ConfigurationError: a column has a type that does not come back from JSON as it was.
        """
        for name, kind in without_json_type(schema, self.columns):
            raise ConfigurationError(
                f"The column {name!r} of type {kind} cannot go through a join: make "
                "plain columns of its parts, or a text with to_json(...), in a select() before join()."
            )
        return StoreSignature(key=key_name, key_type=type_name(key_type), operation="repartition")

    def going_on(self, signature: StoreSignature) -> JoinSide:
        """See `Operation.going_on`: there is nothing to go on with."""
        return self

    def group(self, key_name: str, rows: pa.Table) -> SideRows:
        """See `Operation.group`.

        Args:
            key_name: the key column's name.
            rows: columns ``__key``, which is null where a row without key goes on, `EVENT_MS`, of a table `DELETED`,
                and `columns`.
        """
        return SideRows(self, rows.combine_chunks())

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: there are none."""
        return []


class SideRows:
    """See `GroupedRows`: no state is read, so it has no keys."""

    keys: Sequence[bytes] = ()

    def __init__(self, operation: JoinSide, rows: pa.Table) -> None:
        self._operation, self._rows = operation, rows

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """See `GroupedRows.apply`: the rows in their order."""
        rows, operation = self._rows, self._operation
        keys: list[bytes] = pc.fill_null(rows.column("__key"), b"").to_pylist()
        flags = np.full(rows.num_rows, operation.side, np.uint8)
        if rows.column("__key").null_count:
            flags[rows.column("__key").is_null().to_numpy()] |= UNKEYED
        if operation.table:
            flags[rows.column(DELETED).to_numpy()] |= GONE
        columns = {name: rows.column(name).combine_chunks() for name in operation.columns}
        others = [(name, columns[name]) for name in operation.others]
        written = rows_of_columns((operation.on, columns[operation.on]), others)
        values = JoinRows().encode(flags, rows.column(EVENT_MS).to_numpy(), written)
        return Changes([], list(zip(keys, values, strict=True)))
