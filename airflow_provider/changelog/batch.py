"""Consecutive records of a changelog, as the reader hands them on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.changelog.commit_record import COMMIT_KEY
from airflow_provider.errors import StatefulStreamsError, TopicMismatchError

_SORTED_FROM: Final = 1_000
_SORTED_BYTES: Final = 1_000
"""From so many changes on, of no more bytes each in the mean, RocksDB's own sort of what comes sorted saves more than
sorting costs here: of larger ones that would be copying."""


@dataclass(kw_only=True)
class ChangelogBatch:
    """Consecutive records of one changelog partition.

    Args:
        keys: of the changes. A key may come again; then the oldest comes first, where those of other keys may be in
            the order of their bytes.
        values: as many; None where the key was deleted.
        commit: the last commit record among them, which is not among the changes; None when there was none.
        commit_at: its offset.
        uncommitted_from: offset of the first change behind that; of the first of all where there is none; None where
            the last record is a commit record.
        first_offset: of the first record; None while there is none.
        first_commit: that record, where it is a commit record; None otherwise.
        records: how many records that were, commit records among them.
        record_bytes: size of their keys and values together.
        next_offset: offset after the last record, control records included when the end was reached.
        known_end: end of the log as the broker reported it with the last fetch; None when unknown.
        error: why the partition cannot be read further; None otherwise.
    """

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    commit: bytes | None = None
    commit_at: int | None = None
    uncommitted_from: int | None = None
    first_offset: int | None = None
    first_commit: bytes | None = None
    records: int = 0
    record_bytes: int = 0
    next_offset: int = 0
    at_end: bool = False
    known_end: int | None = None
    error: StatefulStreamsError | None = None

    @classmethod
    def of(
        cls, keys: pa.BinaryArray, values: pa.BinaryArray, offsets: pa.Int64Array, where: str, before: int | None = None
    ) -> ChangelogBatch:
        """Of at least one record; those from offset `before` on are left out.

        A million a second pass here, so nothing is done for each in Python.

        Args:
            keys: null only where another program wrote it.
            values: as many; null where the key was deleted.
            offsets: as many.
            where: the changelog and its partition, for an error's text.
        """
        at = offsets.to_numpy()
        batch = cls(next_offset=int(at[-1]) + 1)
        count = len(at) if before is None else int(np.searchsorted(at, before))
        if keys.slice(0, count).null_count:
            count = keys.is_null().index(True).as_py()
            batch.next_offset = int(at[count])
            batch.error = TopicMismatchError(
                f"Offset {batch.next_offset} of {where} has no key: another program writes into this changelog. Find "
                "it before the application is started again."
            )
        if not count:
            return batch
        keys, values = keys.slice(0, count), values.slice(0, count)
        batch.records = count
        batch.record_bytes = sum(pc.sum(pc.binary_length(some)).as_py() or 0 for some in (keys, values))
        batch.first_offset = batch.uncommitted_from = int(at[0])
        commits = pc.equal(keys, COMMIT_KEY)
        if commits.true_count:
            places = np.flatnonzero(commits)
            last, behind = int(places[-1]), int(places[-1]) + 1
            batch.first_commit = values[0].as_py() if places[0] == 0 else None
            batch.commit, batch.commit_at = values[last].as_py(), int(at[last])
            batch.uncommitted_from = int(at[behind]) if behind < count else None
            changes = pc.invert(commits)
            keys, values = keys.filter(changes), values.filter(changes)
        if len(keys) >= _SORTED_FROM and batch.record_bytes <= _SORTED_BYTES * count:
            order = pc.array_sort_indices(keys)
            keys, values = keys.take(order), values.take(order)
        batch.keys, batch.values = keys.to_pylist(), values.to_pylist()
        return batch


def uncommitted_since(before: int | None, commit: bytes | None, found: int | None) -> int | None:
    """Offset of the first change behind the last commit record, once more of a changelog is read.

    Args:
        before: the same, of what was read before.
        commit: the last commit record in what is read now; None where there is none.
        found: `ChangelogBatch.uncommitted_from` of that.
    """
    return found if commit is not None or before is None else before
