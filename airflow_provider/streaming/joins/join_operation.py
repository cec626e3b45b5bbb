"""What all joins are, and the rows of their sides on the way to them."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.control.records.status import TimeStatus
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.join_rows import (
    DELETED,
    GONE,
    ROW,
    UNKEYED,
    How,
    JoinedColumns,
    JoinRows,
    rows_of_columns,
)
from airflow_provider.streaming.json.types import type_name, type_names, without_json_type
from airflow_provider.streaming.operations.batch import Changes, StateReader, StoreReader
from airflow_provider.streaming.operations.limits import Limits, shared_too_large, too_large
from airflow_provider.streaming.operations.operation import Batch, Operation
from airflow_provider.streaming.operations.repartition import passed_column
from airflow_provider.streaming.operations.stream_time import MARK_MS, Ints, StreamTime
from airflow_provider.streaming.terms.event_time import EVENT_MS

_BESIDE_ROW_BYTES: Final = 50
"""Bytes that the store of a join adds to a row and its key, rounded up; of many chunks it says eight more for each."""


class JoinOperation(Operation):
    """An operation whose rows are those of two sides, as `joins.join_rows` describes them."""

    sided: ClassVar[bool] = True

    if TYPE_CHECKING:  # fields of each join

        @property
        def joined(self) -> JoinedColumns:
            """The columns, by side."""

        @property
        def how(self) -> How:
            """Which rows without a partner it emits."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the rows that it emits."""
        return self.joined.names

    @property
    @abstractmethod
    def kept(self) -> str:
        """Which rows it keeps, and for how long, in words that are compared as they are (`StoreSignature.join`)."""

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """Those of the rows that it keeps."""
        return self.columns

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        return StoreSignature(
            key=key_name,
            key_type=type_name(key_type),
            operation="join",
            join=self.kept,
            columns=type_names(schema, self.kept_columns),
        )

    @property
    def decoder(self) -> JoinRows:
        return JoinRows()

    @property
    def delay_ms(self) -> int:
        """By how much its watermark lies behind its rows' times at the most."""
        return 0

    @property
    def broadcast(self) -> bool:
        """Whether each task has all rows of the right side."""
        return False

    def reading(
        self, signature: StoreSignature, schema: pa.Schema | None, before: Mapping[str, Operation]
    ) -> StoreSignature:
        """See `Operation.reading`: rows say themselves what they hold, but not what their times are."""
        times = {
            topic: side.time for topic, side in before.items() if isinstance(side, JoinSide) and side.time is not None
        }
        return dataclasses.replace(signature, times=times)

    @property
    def keeps_many(self) -> bool:
        """Whether what is kept together may be made of many rows."""
        return False

    def fitted(self, batch: Batch, changes: Changes, state: StoreReader, limits: Limits, tolerant: bool) -> Changes:
        """See `Operation.fitted`; where many rows are kept together, only those are left out that fit in no topic."""
        if not self.keeps_many:
            return super().fitted(batch, changes, state, limits, tolerant)
        large = limits.of(changes)
        if not large:
            return changes
        sizes = pc.add(pc.binary_length(batch.rows.column(ROW)), pc.binary_length(batch.rows.column("__key")))
        reasons = (
            (at, limits.state.excess("state", size.as_py() + _BESIDE_ROW_BYTES)) for at, size in enumerate(sizes)
        )
        alone = [too_large(batch.rows, at, reason, alone=True) for at, reason in reasons if reason is not None]
        if not alone:
            raise shared_too_large(batch.rows, large, self.groups)
        if not tolerant:
            raise alone[0]
        # The rest is computed without them.
        return Changes([], [], alone)

    @staticmethod
    def _held_back(
        time: StreamTime, sides: Sequence[str], marks: tuple[int | None, int | None], behind: int | None
    ) -> TimeStatus:
        """See `Operation.time_status`.

        Args:
            behind: the side that the task waits for; None for none.
        """
        if behind is None or not sides:
            return TimeStatus(watermark_ms=time.watermark_ms)
        left, right = marks
        ms = None if left is None or right is None else abs(left - right)
        return TimeStatus(watermark_ms=time.watermark_ms, held_back_by=sides[behind], held_back_ms=ms)


@dataclass(frozen=True, kw_only=True)
class JoinSide(Operation):
    """An operation without state: every row becomes a record as `joins.join_rows` describes it.

    Args:
        table: whether the rows are those of a table, among them deletions.
        time: of a table, what its rows' times are, in words; None where the job makes it: then one task wrote all rows
            of a key, in order, and none counts as older than those before it, whatever that task's host's clock said.
        behind: as of `operations.repartition.Repartition`.
        passes_ms: by how much what is told of time behind the join lies behind the rows' own, where a row's own
            watermark goes along (`PASSED`); None where it does not.
        passes_always: whether it does with each row, because a step behind the join makes another time of the row's.
    """

    side: int
    on: str
    others: tuple[str, ...]
    table: bool = False
    time: str | None = None
    behind: Operation | None = None
    passes_ms: int | None = None
    passes_always: bool = False

    @property
    def passes(self) -> bool:
        return self.passes_ms is not None

    def passing(self, delay_ms: int = 0, *, always: bool = False) -> JoinSide:
        """See `Operation.passing`: the rows of a stream, which is the left side."""
        return self if self.side else dataclasses.replace(self, passes_ms=delay_ms, passes_always=always)

    def comes_in_time(self, event_ms: Ints, marks: Ints, side: int | Ints = 0) -> npt.NDArray[np.bool_]:
        if self.behind is None:
            return super().comes_in_time(event_ms, marks)
        return self.behind.comes_in_time(event_ms, marks, self.side)

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads, that of the key with its own type among them."""
        return (self.on, *self.others)

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`: without state, but records under another key would mix with those on the way."""
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
        if self.passes_ms is not None:
            marks = pc.subtract(rows.column(MARK_MS).combine_chunks(), self.passes_ms)
            others += passed_column(marks, rows.column(EVENT_MS).combine_chunks(), always=self.passes_always)
        written = rows_of_columns((self.on, columns[self.on]), others)
        times = rows.column(EVENT_MS).to_numpy()
        if self.table and self.time is None and len(times):
            begin = batch.before.stream_time_ms
            times = np.maximum.accumulate(times if begin is None else np.maximum(times, begin))
        values = JoinRows().encode(flags, times, written)
        return Changes([], list(zip(keys, values, strict=True)))

    @property
    def side_written(self) -> int:
        return self.side

    @property
    def text(self) -> str:
        return f"write {', '.join(self.columns)} for a join"
