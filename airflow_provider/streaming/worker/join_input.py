"""What a side of a join needs of the rows that arrive: a table's deletions, and rows without a key."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.event_time import EVENT_MS
from airflow_provider.streaming.operations.join_side import DELETED
from airflow_provider.streaming.planner.stage_spec import InputSpec

__all__ = ["for_join"]


def for_join(given: InputSpec, raw: pa.Table, rows: pa.Table) -> pa.Table:
    """The rows, as `operations.join_side` takes them; as they are where they are no side of a join.

    Args:
        given: of the stage.
        raw: the rows as they came, of a table with ``__value`` and ``__timestamp_ms``.
        rows: the same, decoded.
    """
    if given.table:
        deleted = pc.is_null(raw.column("__value"))
        # All that a deletion has is its record's key and time.
        rows = _set(rows, "__key", pc.if_else(deleted, rows.column("__source_key"), rows.column("__key")))
        times = pc.if_else(deleted, raw.column("__timestamp_ms"), rows.column(EVENT_MS))
        rows = _set(rows, EVENT_MS, times).append_column(DELETED, deleted)
    if given.null_keys == "drop":
        nowhere = pc.and_(pc.is_null(rows.column("__key")), pc.is_null(rows.column("__corrupt")))
        number = pa.scalar(len(given.filters) - 1, pa.int32())
        dropped = pc.and_(nowhere, pc.is_null(rows.column("__filtered")))
        rows = _set(rows, "__filtered", pc.if_else(dropped, number, rows.column("__filtered")))
    return rows


def _set(rows: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)
