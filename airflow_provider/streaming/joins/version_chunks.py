"""The versions of a key of a table, by time, in chunks: neither is a value too large, nor is one rewritten with all.

The newest lie under the key itself, with the times of the others. A chunk has its versions up to the time of the next
one. ``docs/formats.md`` has the bytes.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.state.time_segments import PREFIX_BYTES, time_prefix
from airflow_provider.streaming.joins.join_rows import (
    HEAD_BYTES,
    NO_STATE,
    KeptRow,
    decode_rows,
    encode_rows,
)
from airflow_provider.streaming.joins.row_chunks import CHUNK_BYTES
from airflow_provider.streaming.operations.operation import BESIDE_GROUPS

_CHUNK: Final = BESIDE_GROUPS + b"v"
_COUNT: Final = struct.Struct("<I")
_NO_OTHERS: Final = _COUNT.pack(0)
_TIME: Final = itemgetter(0)


def is_chunk_key(key: bytes) -> bool:
    """Whether a key of the store is that of a chunk."""
    return key.startswith(_CHUNK)


def group_of_chunk(key: bytes) -> bytes:
    """The key whose versions are in a chunk."""
    return key[len(_CHUNK) + PREFIX_BYTES :]


def has_chunks(state: bytes | None) -> bool:
    """Whether a key's value says that there are others."""
    return state is not None and not state.startswith(_NO_OTHERS)


def chunk_keys(group: bytes, state: bytes | None) -> list[bytes]:
    """The keys of all chunks but the newest, oldest first."""
    return [_chunk_key(group, first) for first in _decode(state)[0][:-1]]


def needed_chunks(
    group: bytes, state: bytes | None, times: Iterable[int], over_ms: int | None, whole: bool
) -> list[bytes]:
    """Those of them that have to be read.

    Args:
        times: at which versions are looked for or added.
        over_ms: up to when versions are dropped at the most; None where none are.
        whole: whether all may be dropped.
    """
    firsts, _ = _decode(state)
    if len(firsts) < 2:
        return []
    if whole:
        return chunk_keys(group, state)
    wanted = {_place(firsts, time) for time in times}
    if over_ms is not None:
        wanted.update(range(_place(firsts, over_ms) + 1))
    return [_chunk_key(group, firsts[at]) for at in sorted(wanted - {len(firsts) - 1})]


class _Chunk:
    __slots__ = ("changed", "first", "rows")

    def __init__(self, first: int, rows: list[KeptRow] | None, changed: bool = False) -> None:
        self.first, self.rows, self.changed = first, rows, changed


class VersionChunks:
    """What is known of a key, of what was read of the store: the key itself and its `needed_chunks` are among it."""

    __slots__ = ("_chunks", "_firsts", "_group", "_old", "_read")

    def __init__(self, group: bytes, read: Mapping[bytes, bytes | None]) -> None:
        self._group, self._read = group, read
        self._firsts, newest = _decode(read[group])
        self._chunks = [_Chunk(first, None) for first in self._firsts]
        if newest:
            self._chunks[-1].rows = newest
        self._old = [_chunk_key(group, first) for first in self._firsts[:-1]]

    @property
    def last(self) -> KeptRow | None:
        """The newest version."""
        return self._rows(-1)[-1] if self._chunks else None

    def at(self, time_ms: int) -> KeptRow | None:
        """The last version that is not later than a time."""
        if not self._chunks:
            return None
        rows = self._rows(_place(self._firsts, time_ms))
        found = bisect.bisect_right(rows, time_ms, key=_TIME) - 1
        return rows[found] if found >= 0 else None

    def add(self, new: KeptRow) -> None:
        """Keep a version, in the place of one of the same time."""
        if not self._chunks:
            self._chunks, self._firsts = [_Chunk(new.time, [new], changed=True)], [new.time]
            return
        at = _place(self._firsts, new.time)
        rows = self._rows(at)
        place = bisect.bisect_left(rows, new.time, key=_TIME)
        rows[place : place + (place < len(rows) and rows[place].time == new.time)] = [new]
        self._chunks[at].changed = True

    def drop_before(self, begin_ms: int) -> None:
        """Drop what was over at a time: all versions before the last that is not later than it."""
        at = _place(self._firsts, begin_ms)
        rows = self._rows(at)
        anchor = bisect.bisect_right(rows, begin_ms, key=_TIME) - 1
        if anchor > 0:
            del rows[:anchor]
            self._chunks[at].changed = True
        if anchor >= 0:
            del self._chunks[:at], self._firsts[:at]

    def clear(self) -> None:
        """Drop all versions."""
        self._chunks, self._firsts = [], []

    def changes(self) -> dict[bytes, bytes | None]:
        """Keys and values that may have changed; None of what is dropped."""
        parts = list[tuple[int, list[KeptRow] | None]]()
        for at, chunk in enumerate(self._chunks):
            if not chunk.changed or chunk.rows is None:
                parts.append((chunk.first, None))
                continue
            pieces = _pieces(chunk.rows, is_newest=at == len(self._chunks) - 1)
            parts.append((min(chunk.first, pieces[0][0].time), pieces[0]))
            parts += [(piece[0].time, piece) for piece in pieces[1:]]
        found = {_chunk_key(self._group, first): encode_rows(rows) for first, rows in parts[:-1] if rows is not None}
        there = {_chunk_key(self._group, first) for first, _ in parts[:-1]}
        found |= dict.fromkeys((key for key in self._old if key not in there), None)
        assert all(key in self._read for key in self._old if key in found)
        if not parts:
            return found | {self._group: None}
        newest = parts[-1][1] or self._rows(-1)
        return found | {self._group: _encode([first for first, _ in parts], newest)}

    def _rows(self, at: int) -> list[KeptRow]:
        chunk = self._chunks[at]
        if chunk.rows is None:
            chunk.rows = decode_rows(self._read[_chunk_key(self._group, chunk.first)])
        return chunk.rows


def whole_state(group: bytes, read: Mapping[bytes, bytes | None]) -> bytes:
    """The value of a key as if all of its versions lay there.

    Args:
        read: what the store has of it, all of its `chunk_keys` among it.
    """
    chunks = [decode_rows(read[key]) for key in chunk_keys(group, read[group])]
    return _encode([], [row for rows in [*chunks, _decode(read[group])[1]] for row in rows])


def versions_of(state: bytes | None) -> list[KeptRow]:
    """The versions that a key's own value has."""
    return _decode(state)[1]


def _chunk_key(group: bytes, first: int) -> bytes:
    return _CHUNK + time_prefix(first) + group


def _place(firsts: Sequence[int], time_ms: int) -> int:
    """In which chunk a time lies; in the first, too, what is before all."""
    return max(bisect.bisect_right(firsts, time_ms) - 1, 0)


def _pieces(rows: Sequence[KeptRow], *, is_newest: bool) -> list[list[KeptRow]]:
    """Rows of a chunk, cut where it is full; the newest ones fill up, and others get rows in between later."""
    sizes = [HEAD_BYTES + len(row.row) for row in rows]
    if sum(sizes) <= CHUNK_BYTES:
        return [list(rows)]
    room = CHUNK_BYTES if is_newest else CHUNK_BYTES // 2
    pieces, size = list[list[KeptRow]](), 0
    for row, bytes_ in zip(rows, sizes, strict=True):
        if not pieces or size + bytes_ > room:
            pieces.append([])
            size = 0
        pieces[-1].append(row)
        size += bytes_
    return pieces


def _encode(firsts: Sequence[int], rows: Iterable[KeptRow]) -> bytes:
    others = max(len(firsts) - 1, 0)
    index = struct.pack(f"<{others + 1}q", *firsts) if others else b""
    return _COUNT.pack(others) + index + (encode_rows(rows) or b"")


def _decode(state: bytes | None) -> tuple[list[int], list[KeptRow]]:
    """The times of all chunks, and the rows of the newest."""
    if state is None:
        return [], []
    try:
        (others,) = _COUNT.unpack_from(state)
        index = struct.Struct(f"<{others + 1 if others else 0}q")
        firsts = list(index.unpack_from(state, _COUNT.size))
    except struct.error:
        raise ConfigurationError(NO_STATE) from None
    rows = decode_rows(state[_COUNT.size + index.size :])
    return firsts or [rows[0].time], rows
