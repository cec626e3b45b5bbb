"""A batch that is given to an operation, over what a dict holds."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from airflow_provider.streaming.operations.batch import Changes, KnownState
from airflow_provider.streaming.operations.operation import Batch, Operation
from airflow_provider.streaming.operations.stream_time import StreamTime

__all__ = ["batch_of", "merged"]


def batch_of(rows: pa.Table, key_name: str = "k", before: StreamTime | None = None) -> Batch:
    time = before or StreamTime()
    return Batch(key_name=key_name, rows=rows, before=time, after=time)


def merged(
    operation: Operation,
    rows: pa.Table,
    stored: Mapping[bytes, bytes | None] | None = None,
    *,
    key_name: str = "k",
    tolerant: bool = False,
) -> Changes:
    return operation.merge(batch_of(rows, key_name), KnownState(stored or {}), tolerant)
