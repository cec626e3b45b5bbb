"""What all joins are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.control.records.status import TimeStatus
from airflow_provider.streaming.joins.join_rows import ROW, How, JoinedColumns, JoinRows
from airflow_provider.streaming.joins.join_side import JoinSide
from airflow_provider.streaming.operations.changes import Changes
from airflow_provider.streaming.operations.limits import Limits, shared_too_large, too_large
from airflow_provider.streaming.operations.operation import Batch, Operation
from airflow_provider.streaming.operations.stream_time import StreamTime

_BESIDE_ROW_BYTES: Final = 50
"""Bytes that the store of a join adds to a row and its key, rounded up; of many chunks it says eight more for each."""


class JoinOperation(Operation):
    """An operation whose rows are those of two sides, as `operations.join_rows` describes them."""

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
    def decoder(self) -> JoinRows:
        """See `Operation.decoder`."""
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

    def _fitted_rows(self, batch: Batch, changes: Changes, limits: Limits, tolerant: bool) -> Changes:
        """See `Operation.fitted`, where a result is made of many rows: only those are left out that fit in no topic."""
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
            time: of the task.
            sides: what they are.
            marks: how far each is.
            behind: the side that the task waits for; None for none.
        """
        if behind is None or not sides:
            return TimeStatus(watermark_ms=time.watermark_ms)
        left, right = marks
        ms = None if left is None or right is None else abs(left - right)
        return TimeStatus(watermark_ms=time.watermark_ms, held_back_by=sides[behind], held_back_ms=ms)
