"""Keys of a table that were deleted: remembered with their times for a while, so that no older row brings them back.

Beside what is kept of each key lies a list in the order of the deletions' times, by which they are forgotten
(``docs/formats.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from airflow_provider.state.time_segments import PREFIX_BYTES, time_of, time_prefix
from airflow_provider.streaming.joins.join_rows import FLAGS, LEFT, RIGHT, KeptRow
from airflow_provider.streaming.operations.batch import StateReader
from airflow_provider.streaming.operations.operation import BESIDE_GROUPS, Batch
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK
from airflow_provider.streaming.terms.event_time import EVENT_MS

REMEMBERED_MS: Final = 24 * 3_600_000
"""For how long a table without history remembers a deletion, by the greatest time of its rows."""

_PREFIXES: Final = {LEFT: BESIDE_GROUPS + b"l", RIGHT: BESIDE_GROUPS + b"d"}
_BEGINS: Final = tuple(_PREFIXES.values())
_THERE: Final = b"\x01"
_BEFORE_MS: Final = ("__left_before_ms", "__right_before_ms")


def deleted_key(side: int, time_ms: int, group: bytes) -> bytes:
    """Where the list has a deletion."""
    return _PREFIXES[side] + time_prefix(time_ms) + group


def is_deleted_key(key: bytes) -> bool:
    """Whether a key of the store is one of the list."""
    return key.startswith(_BEGINS)


def group_of_deleted(key: bytes) -> bytes:
    """The key that was deleted."""
    return key[len(_BEGINS[0]) + PREFIX_BYTES :]


def time_of_deleted(key: bytes) -> int:
    """When it was."""
    return time_of(key[len(_BEGINS[0]) :])


def over_keys(state: StateReader, side: int, until_ms: int) -> set[bytes]:
    """The list's deletions up to a time, which is included."""
    prefix = _PREFIXES[side]
    return {key for key, _ in state.range(prefix, prefix + time_prefix(until_ms + 1))}


def listed(deleted: Iterable[bytes], versions: Mapping[bytes, Sequence[KeptRow]]) -> dict[bytes, bytes | None]:
    """What becomes of some deletions of the list: they stay as long as they are the last that is known of their keys.

    Args:
        deleted: their keys in the list.
        versions: by deleted key, what is known of it, by time; of either side.
    """
    found = dict[bytes, bytes | None]()
    for key in deleted:
        side = LEFT if key.startswith(_PREFIXES[LEFT]) else RIGHT
        of_side = [version for version in versions[group_of_deleted(key)] if version.side == side]
        is_last = bool(of_side) and of_side[-1].gone and of_side[-1].time == time_of_deleted(key)
        found[key] = _THERE if is_last else None
    return found


def place_by_side(batch: Batch) -> Batch:
    """Rows of a join that waits for nothing, whose sides have a time each; with columns for `times_before`."""
    rows = batch.rows
    sides = (rows.column(FLAGS).to_numpy() & RIGHT).astype(np.int64)
    of_sides = batch.side_watermarks(sides, (0, 0))
    for name, times, begin in zip(_BEFORE_MS, of_sides, batch.begins(len(of_sides)), strict=True):
        rows = rows.append_column(name, pa.array(np.concatenate(([begin], times))[: len(times)]))
    return batch.placed(rows, batch.time_of_sides(batch.ends(of_sides), NO_WATERMARK))


def times_before(rows: pa.Table, side: int) -> list[int]:
    """Of a table, its greatest time before each of a batch's rows, and after the last.

    Args:
        rows: as `place_by_side` gives them.
    """
    times: list[int] = rows.column(_BEFORE_MS[side]).to_pylist()
    last = rows.num_rows - 1
    is_of_side = rows.column(FLAGS)[last].as_py() & RIGHT == side
    return [*times, max(times[-1], rows.column(EVENT_MS)[last].as_py()) if is_of_side else times[-1]]


def over_until(table_ms: int) -> int:
    """Deletions at that time and before are forgotten."""
    return max(table_ms - REMEMBERED_MS, NO_WATERMARK)
