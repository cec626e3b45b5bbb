"""The rows that a join of two streams keeps of one key, side and time, in chunks: none is rewritten with all others.

Rows go into chunk 0 until that is full; then its rows move to a chunk of the next number, and are not touched by rows
that come later. ``docs/formats.md`` has the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from airflow_provider.state.time_segments import PREFIX_BYTES, time_of, time_prefix
from airflow_provider.streaming.joins.join_rows import HEAD_BYTES, MATCHED, RIGHT, KeptRow, decode_rows, encode_rows

CHUNK_BYTES: Final = 16 * 1024
"""Of rows in a chunk, before it is full. What one row changes is written again with so much at the most."""

_NUMBER: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct("<I")
_RIGHT_SIDE: Final = 1 << 31
_MOST: Final = 1 << 24
"""Chunks of a group, a side and a time: more would be 256 GiB."""


def chunk_key(time_ms: int, group: bytes, side: int, number: int = 0) -> bytes:
    """The key of a chunk."""
    return time_prefix(time_ms) + group + _NUMBER.pack(_RIGHT_SIDE * side + number)


def ranges_of(group: bytes) -> list[tuple[bytes, bytes]]:
    """From which key to which the chunks of each side lie, behind the time."""
    ends = [(_RIGHT_SIDE * side, _RIGHT_SIDE * side + _MOST) for side in (0, 1)]
    return [(group + _NUMBER.pack(begin), group + _NUMBER.pack(end)) for begin, end in ends]


def group_of(key: bytes) -> bytes:
    """The group of a chunk, by its key."""
    return key[PREFIX_BYTES : -_NUMBER.size]


def place_of(key: bytes) -> tuple[int, int, int]:
    """Time, side and number of a chunk, by its key."""
    number: int = _NUMBER.unpack_from(key, len(key) - _NUMBER.size)[0]
    return time_of(key), number // _RIGHT_SIDE, number % _RIGHT_SIDE


def further_keys(key: bytes, state: bytes) -> list[bytes]:
    """The keys of the other chunks."""
    begin, side = key[: -_NUMBER.size], _RIGHT_SIDE * place_of(key)[1]
    return [begin + _NUMBER.pack(side + number) for number in range(1, _COUNT.unpack_from(state)[0] + 1)]


class Chunk:
    """Rows that are written together, in the order in which they came."""

    __slots__ = ("changed", "rows")

    def __init__(self) -> None:
        self.rows = list[OpenRow]()
        self.changed = False


class OpenRow:
    """A row while a batch is worked through.

    Args:
        flags: with `MATCHED` where it has had a partner.
    """

    __slots__ = ("chunk", "flags", "row", "time")

    def __init__(self, time: int, flags: int, row: bytes, chunk: Chunk) -> None:
        self.time, self.flags, self.row, self.chunk = time, flags, row, chunk

    def match(self) -> None:
        """Note that it has had a partner."""
        if not self.flags & MATCHED:
            self.flags |= MATCHED
            self.chunk.changed = True


class ChunkedRows:
    """What is known of the rows of one group, side and time: chunk 0, and as many others as were read."""

    __slots__ = ("_chunks", "_count", "_key")

    def __init__(self, time_ms: int, group: bytes, side: int) -> None:
        self._key = time_ms, group, side
        self._chunks = dict[int, Chunk]()
        self._count = 0

    def load(self, number: int, state: bytes) -> None:
        """Take what is kept of a chunk, once."""
        if number in self._chunks:
            return
        chunk = self._chunks[number] = Chunk()
        if number == 0:
            (self._count,) = _COUNT.unpack_from(state)
        chunk.rows = [OpenRow(time, flags, row, chunk) for time, flags, row in rows_of(state)]

    def add(self, time: int, flags: int, row: bytes) -> OpenRow:
        """Keep a row that came."""
        chunk = self._chunks.setdefault(0, Chunk())
        new = OpenRow(time, flags, row, chunk)
        chunk.rows.append(new)
        chunk.changed = True
        return new

    def rows(self) -> Iterator[OpenRow]:
        """Of the chunks that were read, in the order in which they came."""
        for number in sorted(self._chunks, key=lambda number: number or _RIGHT_SIDE):
            yield from self._chunks[number].rows

    def changes(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of the chunks that have changed, and of those that became full."""
        for number, chunk in self._chunks.items():
            if number and chunk.changed:
                yield chunk_key(*self._key, number), _encoded(0, chunk.rows)
        first = self._chunks.get(0)
        if first is None or not first.changed:
            return
        rows, size, full = list[OpenRow](), 0, list[list[OpenRow]]()
        for row in first.rows:
            bytes_ = HEAD_BYTES + len(row.row)
            # A large row lies alone: with others it might not fit into the changelog.
            if rows and size + bytes_ > CHUNK_BYTES:
                full.append(rows)
                rows, size = [], 0
            rows.append(row)
            size += bytes_
        for number, of_chunk in enumerate(full, self._count + 1):
            yield chunk_key(*self._key, number), _encoded(0, of_chunk)
        yield chunk_key(*self._key), _encoded(self._count + len(full), rows)


def rows_of(state: bytes) -> list[KeptRow]:
    """The rows of a chunk, by its value."""
    return decode_rows(state[_COUNT.size :])


def _encoded(count: int, rows: list[OpenRow]) -> bytes:
    kept = (KeptRow(row.time, row.flags & (MATCHED | RIGHT), row.row) for row in rows)
    return _COUNT.pack(count) + (encode_rows(kept) or b"")
