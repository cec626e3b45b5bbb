"""Sums that leave the range of their type: found before anything is written, and laid on the record that does it.

A sum is judged as its records are added one after the other, in the order of their offsets, so that it does not matter
where batches end. That is done only for keys that may leave the range at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.aggregates.accumulator import Accumulator, Function, Kind, decimal_of, exact_sum
from airflow_provider.streaming.json.row_codec import Column
from airflow_provider.streaming.operations.batch import FunctionError

_SAFE: Final = 0.999
"""Sums of doubles are not exact; what comes near to a bound is looked at."""


def has_bound(accumulator: Accumulator) -> bool:
    """Whether it is a sum that can leave the range of its type: a double cannot."""
    return accumulator.function is Function.SUM and accumulator.kind is not Kind.DOUBLE


@dataclass(frozen=True, kw_only=True)
class SumBound:
    """The range of one sum, and how far a batch may take it.

    Args:
        at: the accumulator's index.
        type_name: of the sum, as Spark names it.
        accumulator: how its values are taken from the rows.
        least: the least value that has room.
        reach: no sum of any of the batch's values is greater, by amount.
    """

    at: int
    column: str
    accumulator: Accumulator
    type_name: str
    least: Decimal | int
    greatest: Decimal | int
    reach: Decimal | int

    @classmethod
    def of(cls, at: int, accumulator: Accumulator, values: pa.ChunkedArray) -> SumBound:
        """Of a batch."""
        least: Decimal | int
        greatest: Decimal | int
        reach: Decimal | int
        ends = pc.min_max(values).as_py()
        amount = 0 if ends["min"] is None else max(abs(ends["min"]), abs(ends["max"]))
        if accumulator.kind is Kind.INTEGER:
            name, least, greatest, reach = "BIGINT", -(2**63), 2**63 - 1, int(amount) * len(values)
        else:
            logical = accumulator.logical
            name, reach = f"DECIMAL({logical.precision},{logical.scale})", Decimal(amount) * len(values)
            greatest = Decimal((0, (9,) * logical.precision, -logical.scale))
            least = greatest.copy_negate()  # a minus would round to the context's 28 digits
        return cls(
            at=at,
            column=accumulator.column or "",
            accumulator=accumulator,
            type_name=name,
            least=least,
            greatest=greatest,
            reach=reach,
        )

    def near(self, keys: Sequence[bytes], rows: pa.Table, kept: Column) -> npt.NDArray[np.bool_] | None:
        """By key, whether its sum may leave the range in this batch; None where none can."""
        amounts = self._kept_amounts(kept)
        bound = float(self.greatest) * _SAFE
        if float(self.reach) + amounts.max(initial=0.0) < bound:
            return None
        values = pc.abs(self.accumulator.values(rows).cast(pa.float64(), safe=False))
        table = pa.table({"key": rows.column("__key"), "amount": values})
        grouped = table.group_by("key", use_threads=False).aggregate([("amount", "sum")])
        by_key = dict(zip(grouped.column("key").to_pylist(), grouped.column("amount_sum").to_pylist(), strict=True))
        added = np.array([by_key[key] or 0.0 for key in keys])
        result: npt.NDArray[np.bool_] = added + amounts >= bound
        return result

    @staticmethod
    def _kept_amounts(kept: Column) -> npt.NDArray[np.float64]:
        if kept.texts is None:
            return np.abs(np.where(kept.ok, kept.values, 0).astype(np.float64))
        return np.array([0.0 if text is None else abs(float(text)) for text in kept.texts], np.float64)

    def kept(self, columns: Sequence[Column], row: int) -> Decimal | int:
        """What a key's sum was before the batch."""
        column = columns[self.at]
        if column.texts is not None:
            text = column.texts[row]
            return Decimal(0) if text is None else decimal_of(text)
        return int(column.values[row]) if column.ok[row] else 0


def overflows(
    bounds: Sequence[SumBound], keys: Sequence[bytes], rows: pa.Table, kept: Sequence[Column]
) -> list[FunctionError]:
    """The rows whose values have no room in their key's sums, as if each were added after the one before.

    Args:
        kept: by accumulator, what was kept of the keys before.
    """
    suspects: npt.NDArray[np.bool_] = np.zeros(len(keys), bool)
    for bound in bounds:
        near = bound.near(keys, rows, kept[bound.at])
        if near is not None:
            suspects |= near
    if not suspects.any():
        return []
    totals = {keys[at]: [bound.kept(kept, at) for bound in bounds] for at in np.flatnonzero(suspects).tolist()}
    of_suspects = rows.filter(pc.is_in(rows.column("__key"), value_set=pa.array(list(totals), pa.binary())))
    values = [bound.accumulator.values(of_suspects).to_pylist() for bound in bounds]
    failures = []
    offsets, owners = of_suspects.column("__offset").to_pylist(), of_suspects.column("__key").to_pylist()
    for offset, key, *added in zip(offsets, owners, *values, strict=True):
        after = [exact_sum(before, value) for before, value in zip(totals[key], added, strict=True)]
        over = [b for b, total in zip(bounds, after, strict=True) if not b.least <= total <= b.greatest]
        if over:
            failures.append(_error(offset, key, over[0]))
        else:
            totals[key] = after
    return failures


def _error(offset: int, key: bytes, bound: SumBound) -> FunctionError:
    reason = (
        f"the sum of {bound.column!r} has no room for the value in {bound.type_name}: correct the record, or cast the "
        "column to DOUBLE, or to a greater DECIMAL"
    )
    return FunctionError(offset, key.decode("utf-8", "replace"), reason)
