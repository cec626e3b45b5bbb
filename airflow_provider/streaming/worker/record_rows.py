"""Rows of one record: a step may make several of it, and what is counted, failed or kept is the record."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.errors import RecordError

__all__ = ["Failure", "count_records", "filtered_records", "without_records"]


@dataclass(frozen=True)
class Failure:
    """One record that could not be processed, and why.

    Args:
        offset: of the input record.
        error: names it.
        stack: the stack of what the user's function raised; empty otherwise.
    """

    offset: int
    error: RecordError
    stack: str = ""

    @classmethod
    def of(cls, offset: int, error: RecordError, cause: BaseException) -> Failure:
        """With the stack of its cause."""
        return cls(offset, error, "".join(traceback.format_exception(cause)))


def count_records(rows: pa.Table) -> int:
    """How many records the rows are of.

    Args:
        rows: with ``__offset``, in the order of the offsets.
    """
    return len(_begins(rows))


def filtered_records(rows: pa.Table, filters: Sequence[str]) -> dict[str, int]:
    """By filter, how many records it dropped: those of which no row is left, under the filter that dropped the last.

    Args:
        rows: with ``__offset`` and ``__filtered``, in the order of the offsets.
        filters: names, by the numbers in ``__filtered``.
    """
    column = rows.column("__filtered")
    if column.null_count == rows.num_rows:
        return {}
    begins = _begins(rows)
    # A row that is left is of a filter that comes after all others.
    by_row = pc.fill_null(column, len(filters)).to_numpy()
    by_record = by_row if len(begins) == rows.num_rows else np.maximum.reduceat(by_row, begins)
    numbers = np.bincount(by_record, minlength=len(filters) + 1)
    counts = Counter[str]()
    for name, number in zip(filters, numbers.tolist(), strict=False):
        counts[name] += number
    return {name: number for name, number in counts.items() if number}


def without_records(rows: pa.Table, offsets: Collection[int]) -> pa.Table:
    """The rows of the other records.

    Args:
        rows: with ``__offset``.
        offsets: of those that are left out.
    """
    return rows.filter(pc.invert(pc.is_in(rows.column("__offset"), value_set=pa.array(list(offsets), pa.int64()))))


def _begins(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The indices of the records' first rows."""
    offsets = rows.column("__offset").to_numpy()
    return np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 1)) if len(offsets) else np.zeros(0, np.int64)
