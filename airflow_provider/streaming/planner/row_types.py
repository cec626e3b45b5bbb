"""The types of the rows that reach a worker."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

__all__ = ["RowTypes"]


@dataclass(frozen=True)
class RowTypes:
    """What a job's signature depends on besides the job.

    Args:
        key: of the key column, before it became text.
        columns: of the columns that the operation reads, and maybe others.
    """

    key: pa.DataType
    columns: pa.Schema
