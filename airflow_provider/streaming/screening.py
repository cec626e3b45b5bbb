"""Finds the rows that no operation can take."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.errors import DecodeError, RecordError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.streaming.failure import Failure

__all__ = ["screen"]


def screen(topic: str, partition: int, key_name: str, rows: pa.Table) -> tuple[pa.Table, list[Failure]]:
    """Part the rows that can be processed from those that cannot.

    Args:
        topic: the source topic, for the errors.
        partition: its partition.
        key_name: the key column's name.
        rows: columns ``__offset``, ``__source_key``, ``__corrupt`` and ``__key`` at least.

    Returns:
        The good rows, and the failures in the order of their offsets.
    """
    good = pc.and_(pc.is_null(rows.column("__corrupt")), _usable(rows.column("__key")))
    if pc.all(good).as_py():
        return rows, []
    failures = []
    for row in rows.filter(pc.invert(good)).select(["__offset", "__source_key", "__corrupt", "__key"]).to_pylist():
        failures.append(Failure(row["__offset"], _error(topic, partition, key_name, row)))
    return rows.filter(good), failures


def _usable(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    usable = pc.invert(pc.fill_null(pc.starts_with(keys, pattern=RESERVED_PREFIX), True))
    try:
        keys.cast(pa.string())  # tests them all, and costs less than asking each
    except pa.ArrowInvalid:
        usable = pc.and_(usable, pa.chunked_array([pa.array([_is_text(key) for key in keys.to_pylist()])]))
    return usable


def _is_text(key: bytes | None) -> bool:
    try:
        return key is not None and bool(key.decode() or True)
    except UnicodeDecodeError:
        return False


def _error(topic: str, partition: int, key_name: str, row: dict[str, object]) -> RecordError:
    offset, key = row["__offset"], row["__key"]
    assert isinstance(offset, int)
    if row["__corrupt"] is not None:
        source_key = row["__source_key"]
        text = source_key.decode("utf-8", "replace") if isinstance(source_key, bytes) else None
        return DecodeError(topic, partition, offset, text, f"{row['__corrupt']}: mend the schema or the producer")
    if not isinstance(key, bytes):
        reason = f"the key column {key_name!r} is null: filter such records out, or give them a key"
        return RecordError(topic, partition, offset, None, reason)
    if key.startswith(RESERVED_PREFIX):
        reason = f"the key begins with {RESERVED_PREFIX!r}, which the changelog keeps for itself: choose another key"
    else:
        reason = "the key is not UTF-8, so no output can name it: group by hex(key) or another text"
    return RecordError(topic, partition, offset, key.decode("utf-8", "replace"), reason)
