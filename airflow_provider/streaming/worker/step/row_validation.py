"""The rows of records: which of them no operation can take, and what is counted, failed or kept of a record.

A step may make several rows of one record.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.errors import DecodeError, RecordError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.streaming.terms.event_time import EVENT_MS

_READ: Final = ("__offset", "__source_key", "__corrupt", "__key")
_FIRST_MS: Final = -62_135_596_800_000
_END_MS: Final = 253_402_300_800_000
"""Event times lie in the years 1 to 9999."""
_TRUST: Final = (
    "Or pass trust_partitioning=True to group_by(), if all records of a group are in one partition all the same"
)

_NO_FILTER: Final = (
    "a table's filter() does not see it; on_error('skip') or on_error('dead_letter', ...) leaves such records out; or "
)


def validate_rows(
    topic: str,
    partition: int,
    key_name: str,
    rows: pa.Table,
    *,
    keyed_by_group: bool = False,
    table: bool = False,
    null_keys: bool = False,
    from_stage: bool = False,
) -> tuple[pa.Table, list[Failure]]:
    """The rows that can be processed, and the failures of the others in the order of their offsets.

    Args:
        rows: columns ``__offset``, ``__source_key``, ``__corrupt`` and ``__key`` at least.
        keyed_by_group: whether the record's key has to be the group, so that all of a group's records are in one
            partition.
        from_stage: whether an earlier stage of the job wrote them.
        table: whether they are a table's, whose key has to be the record's, because a deletion has no other.
    """
    good = pc.and_(pc.is_null(rows.column("__corrupt")), _usable(rows.column("__key"), null_keys))
    times = [EVENT_MS] if EVENT_MS in rows.schema.names else []
    for name in times:
        at = rows.column(name)
        in_range = pc.and_(pc.greater_equal(at, _FIRST_MS), pc.less(at, _END_MS))
        good = pc.and_(good, pc.fill_null(in_range, False))
    if keyed_by_group or table:
        good = pc.and_(good, pc.fill_null(pc.equal(rows.column("__source_key"), rows.column("__key")), False))
    if pc.all(good).as_py():
        return rows, []
    failures = []
    for row in rows.filter(pc.invert(good)).select([*_READ, *times]).to_pylist():
        error = _error(topic, partition, key_name, row, table, null_keys, from_stage)
        failures.append(Failure(row["__offset"], error))
    return rows.filter(good), failures


def without_strays(
    topic: str, partition: int, rows: pa.Table, groups: Sequence[bytes], partitioner: str
) -> tuple[pa.Table, list[Failure]]:
    """The rows without those of groups that belong elsewhere, and the failures of these, by their offsets.

    Args:
        groups: those that do not belong here (`PartitionCheck`).
        partitioner: by whose rule, in words.
    """
    astray = pc.is_in(rows.column("__key"), value_set=pa.array(groups, rows.column("__key").type))
    failures = []
    for row in rows.filter(astray).select(["__offset", "__key"]).to_pylist():
        reason = (
            f"by {partitioner}, which places the other groups, the group belongs into another partition than this: "
            "its records are in several, and each task would keep a part of its state. Let all producers of the topic "
            f"use the same partitioner. {_TRUST}"
        )
        text = row["__key"].decode("utf-8", "replace")
        failures.append(Failure(row["__offset"], RecordError(topic, partition, row["__offset"], text, reason)))
    return rows.filter(pc.invert(astray)), failures


def _usable(keys: pa.ChunkedArray, null_keys: bool) -> pa.ChunkedArray:
    usable = pc.invert(pc.fill_null(pc.starts_with(keys, pattern=RESERVED_PREFIX), not null_keys))
    try:
        keys.cast(pa.string())  # tests them all, and costs less than asking each
    except pa.ArrowInvalid:
        usable = pc.and_(
            usable,
            pa.chunked_array([pa.array([_is_text(key) or (null_keys and key is None) for key in keys.to_pylist()])]),
        )
    return usable


def _is_text(key: bytes | None) -> bool:
    try:
        return key is not None and bool(key.decode() or True)
    except UnicodeDecodeError:
        return False


def _error(
    topic: str, partition: int, key_name: str, row: dict[str, object], table: bool, null_keys: bool, from_stage: bool
) -> RecordError:
    offset, key = row["__offset"], row["__key"]
    assert isinstance(offset, int)
    if row["__corrupt"] is not None:
        source_key = row["__source_key"]
        text = source_key.decode("utf-8", "replace") if isinstance(source_key, bytes) else None
        return DecodeError(topic, partition, offset, text, f"{row['__corrupt']}: correct the job or the producer")
    remedy = _NO_FILTER if table else "filter such records out, or "
    if key is None and not null_keys:
        reason = f"the key column {key_name!r} is null: {remedy}let the producer fill it"
        if from_stage:
            reason = (
                f"the key column {key_name!r} is null: filter such rows out, or give them a value with with_column(). "
                "A row of a left join that found no partner has null there"
            )
        elif row["__source_key"] is not None:
            reason = (
                f"the value has no {key_name!r}, or null there, and the record's key, "
                f"{_shown(row['__source_key'])}, is not read in its place: {remedy}let the producer write the "
                "key into the value, too"
            )
        return RecordError(topic, partition, offset, None, reason)
    text = key.decode("utf-8", "replace") if isinstance(key, bytes) else None
    if isinstance(key, bytes) and key.startswith(RESERVED_PREFIX):
        reason = f"the key begins with {RESERVED_PREFIX!r}, which is reserved for the changelog: choose another key"
    elif isinstance(key, bytes) and not _is_text(key):
        reason = "the key is not UTF-8, so no output can name it: group by hex(key) or another text"
    elif EVENT_MS in row and not (isinstance(at := row[EVENT_MS], int) and _FIRST_MS <= at < _END_MS):
        found = "is null" if at is None else f"is {at} ms since 1970, which is no time of the years 1 to 9999"
        reason = (
            f"the event time {found}: {remedy}let the producer fill the column that "
            "stream(event_time=...) names; a BIGINT holds milliseconds"
        )
    elif table:
        reason = (
            f"the record {_key_of(row)}, not that of its row, {text!r}: a table's rows are found, and deleted, by the "
            f"records' keys. Produce the topic with {key_name!r} as the key"
        )
    else:
        reason = (
            f"the record {_key_of(row)}, not its group {text!r}: records of one group may be in several partitions, "
            f"and each task would keep a part of its state. Produce the topic with {key_name!r} as the key. {_TRUST}"
        )
    return RecordError(topic, partition, offset, text, reason)


def _key_of(row: dict[str, object]) -> str:
    return "has no key" if row["__source_key"] is None else f"has the key {_shown(row['__source_key'])}"


def _shown(key: object) -> str:
    assert isinstance(key, bytes)
    return repr(key.decode() if _is_text(key) else key)


@dataclass(frozen=True)
class Failure:
    """One record that could not be processed, and why.

    Args:
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


def _begins(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The indices of the records' first rows."""
    offsets = rows.column("__offset").to_numpy()
    return np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 1)) if len(offsets) else np.zeros(0, np.int64)
