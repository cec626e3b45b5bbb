"""The rows of one side of a join, on their way to the topic in front of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.join_rows import GONE, UNKEYED, JoinRows, rows_of_columns
from airflow_provider.streaming.json.types import type_name, without_json_type
from airflow_provider.streaming.operations.batch import StateReader
from airflow_provider.streaming.operations.changes import Changes
from airflow_provider.streaming.operations.operation import Batch, Operation
from airflow_provider.streaming.terms.event_time import EVENT_MS

DELETED: Final = "__deleted"
"""The column of a table's rows in a worker that says whether the record deletes its key."""


@dataclass(frozen=True, kw_only=True)
class JoinSide(Operation):
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

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`: the rows in their order.

        Args:
            batch: with ``__key``, which is null where a row without key goes on, `EVENT_MS`, of a table `DELETED`, and
                `columns`.
            state: there is none.
            tolerant: nothing can go wrong.
        """
        rows = batch.rows.combine_chunks()
        keys: list[bytes] = pc.fill_null(rows.column("__key"), b"").to_pylist()
        flags = np.full(rows.num_rows, self.side, np.uint8)
        if rows.column("__key").null_count:
            flags[rows.column("__key").is_null().to_numpy()] |= UNKEYED
        if self.table:
            flags[rows.column(DELETED).to_numpy()] |= GONE
        columns = {name: rows.column(name).combine_chunks() for name in self.columns}
        others = [(name, columns[name]) for name in self.others]
        written = rows_of_columns((self.on, columns[self.on]), others)
        values = JoinRows().encode(flags, rows.column(EVENT_MS).to_numpy(), written)
        return Changes([], list(zip(keys, values, strict=True)))

    @property
    def side_written(self) -> int:
        """See `Operation.side_written`."""
        return self.side

    @property
    def text(self) -> str:
        """See `Operation.text`."""
        return f"write {', '.join(self.columns)} for a join"
