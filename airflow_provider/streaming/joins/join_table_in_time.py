"""A batch of a stream with a table whose earlier rows are kept, because rows of the stream meet that of their time.

Beside what is kept of each key (`joins.version_chunks`), and the list of deleted ones (`joins.deleted_keys`),
which are forgotten when their history is over, lie the rows of the stream that wait (``docs/formats.md``). They are
read by the range, in the order of their times.
"""

from __future__ import annotations

import bisect
import itertools
import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from airflow_provider.state.time_segments import time_of, time_prefix
from airflow_provider.streaming.joins.deleted_keys import (
    deleted_key,
    group_of_deleted,
    is_deleted_key,
    listed,
    over_keys,
    time_of_deleted,
)
from airflow_provider.streaming.joins.join_rows import FLAGS, GONE, LEFT, RIGHT, ROW, UNKEYED, KeptRow
from airflow_provider.streaming.joins.version_chunks import (
    VersionChunks,
    group_of_chunk,
    has_chunks,
    is_chunk_key,
    needed_chunks,
    versions_of,
)
from airflow_provider.streaming.operations.batch import Changes, StateReader
from airflow_provider.streaming.operations.operation import BESIDE_GROUPS
from airflow_provider.streaming.operations.stream_time import MARK_MS, NO_WATERMARK
from airflow_provider.streaming.terms.event_time import EVENT_MS

if TYPE_CHECKING:
    from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin

TABLE_MS: Final = "__table_ms"
"""The column with the table's time at each row."""

_WAITING: Final = BESIDE_GROUPS + b"b"
_BEHIND_WAITING: Final = BESIDE_GROUPS + b"c"
_LENGTH: Final = struct.Struct("<I")
_OFFSET: Final = struct.Struct(">Q")


class _Waiting(NamedTuple):
    """A row of the stream, in the order in which rows come out that have waited for one moment."""

    time: int
    offset: int
    group: bytes
    row: bytes

    @property
    def key(self) -> bytes:
        return _WAITING + time_prefix(self.time) + _OFFSET.pack(self.offset)

    @property
    def value(self) -> bytes:
        return _LENGTH.pack(len(self.group)) + self.group + self.row

    @classmethod
    def of(cls, key: bytes, value: bytes) -> _Waiting:
        end = _LENGTH.size + _LENGTH.unpack_from(value)[0]
        (offset,) = _OFFSET.unpack_from(key, len(key) - _OFFSET.size)
        return cls(time_of(key[len(_WAITING) :]), offset, value[_LENGTH.size : end], value[end:])


def group_of(key: bytes) -> bytes:
    """The group that a key of the store is of; nothing for a row that waits."""
    if is_deleted_key(key):
        return group_of_deleted(key)
    if is_chunk_key(key):
        return group_of_chunk(key)
    return b"" if key.startswith(_WAITING) else key


class TableRowsInTime:
    """A batch's rows of both sides, where a row of the stream meets the table's of its time.

    Args:
        rows: none where the stream's watermark alone has moved.
        end_ms: where it has moved to then.
    """

    def __init__(self, operation: StreamTableJoin, rows: pa.Table, end_ms: int | None = None) -> None:
        self._operation = operation
        names = ("__key", FLAGS, EVENT_MS, ROW, "__offset")
        self._columns: list[list[Any]] = [rows.column(name).to_pylist() for name in names]
        self._marks: list[int] = [end_ms] if end_ms is not None else rows.column(MARK_MS).to_pylist()
        self._table_ms: list[int] = [NO_WATERMARK] if end_ms is not None else rows.column(TABLE_MS).to_pylist()
        self._due = dict[int, list[_Waiting]]()
        """What has waited, and comes out before each of the rows."""
        self._at_once = dict[int, _Waiting]()
        """The rows that wait for nothing."""
        self._old_waiting = list[_Waiting]()
        self._new_waiting = list[_Waiting]()
        self._deleted = set[bytes]()
        self._groups = needed = set[bytes]()
        for at, (key, flags, time, row, offset) in enumerate(zip(*self._columns, strict=True)):
            if flags & RIGHT:
                needed.add(key)
                if flags & GONE:
                    self._deleted.add(deleted_key(RIGHT, time, key))
            elif not flags & UNKEYED:
                waiting = _Waiting(time, offset, key, row)
                if operation.grace_ms is None or time <= self._marks[at]:
                    self._at_once[at] = waiting
                    needed.add(key)
                elif self._let(waiting):
                    needed.add(key)
                else:
                    self._new_waiting.append(waiting)
        self._own = sorted(needed | self._deleted | {row.key for row in self._new_waiting})

    def _let(self, waiting: _Waiting) -> bool:
        """Have a row that has to wait come out in this batch, if its time comes."""
        # Without a grace nothing waits any more: what did, under an earlier version of the job, comes out at once.
        at = 0 if self._operation.grace_ms is None else bisect.bisect_left(self._marks, waiting.time)
        if at == len(self._marks):
            return False
        self._due.setdefault(at, []).append(waiting)
        return True

    def _read(self, state: StateReader) -> dict[bytes, bytes | None]:
        """What is kept of the rows' keys, of those whose history or wait is over after it, and of their chunks."""
        waits = self._operation.grace_ms is not None
        end = _WAITING + time_prefix(self._marks[-1] + 1) if waits else _BEHIND_WAITING
        self._old_waiting = [_Waiting.of(key, value) for key, value in state.range(_WAITING, end)]
        for waiting in self._old_waiting:
            self._let(waiting)
        self._deleted |= over_keys(state, RIGHT, self._forgotten_until(len(self._marks)))
        self._groups |= {row.group for row in self._old_waiting} | {group_of(key) for key in self._deleted}
        needed = {row.key for row in self._old_waiting} | self._deleted | self._groups
        keys = self._own + sorted(needed.difference(self._own))
        read = dict(zip(keys, state.get_many(keys), strict=True))
        chunks = sorted(self._chunks(read))
        return read | dict(zip(chunks, state.get_many(chunks), strict=True))

    def _chunks(self, read: dict[bytes, bytes | None]) -> set[bytes]:
        """The keys of the chunks where versions are looked for, added or dropped."""
        groups = [group for group in self._groups if has_chunks(read[group])]
        if not groups:
            return set()
        times, added = defaultdict[bytes, list[int]](list), dict[bytes, int]()
        for key, flags, time, _, _ in zip(*self._columns, strict=True):
            if flags & RIGHT:
                times[key].append(time)
                added[key] = max(time, added.get(key, time))
        for waiting in itertools.chain(self._at_once.values(), *self._due.values()):
            times[waiting.group].append(waiting.time)
        over, history = self._forgotten_until(len(self._marks)), self._operation.history_ms
        gone = {group_of(key) for key in self._deleted if time_of_deleted(key) <= over}
        found = set[bytes]()
        for group in groups:
            begin = None
            if group in added:
                newest = max([added[group], *(row.time for row in versions_of(read[group])[-1:])])
                begin = self._marks[-1] if history is None else newest - history
            found.update(needed_chunks(group, read[group], times[group], begin, group in gone))
        return found

    def merge(self, state: StateReader) -> Changes:
        """See `Operation.merge`: row after row, in the order of the topic."""
        operation, before = self._operation, self._read(state)
        kept = {group: VersionChunks(group, before) for group in self._groups}
        changed = set[bytes]()
        output = list[tuple[bytes, bytes | None]]()
        for at, (key, flags, time, row, _) in enumerate(zip(*self._columns, strict=True)):
            # Before the row: other tasks have told their time by then.
            for waiting in sorted(self._due.get(at, ())):
                output += self._met(waiting, kept[waiting.group], at)
            if flags & RIGHT:
                versions = self._known(kept[key], at)
                versions.add(KeptRow(time, flags, row))
                changed.add(key)
                self._drop(versions, at)
            elif flags & UNKEYED and operation.how == "left":
                output.append((key, operation.joined.one(LEFT, row)))
            elif (late := self._at_once.get(at)) is not None:
                output += self._joined(late, self._known(kept[key], at))
        if not self._columns[0]:
            for waiting in sorted(self._due.get(0, ())):
                output += self._met(waiting, kept[waiting.group], 0)
        new = dict[bytes, bytes | None]()
        end = len(self._marks)
        last = dict[bytes, list[KeptRow]]()
        for group in changed | {group_of(key) for key in self._deleted}:
            versions = self._known(kept[group], end)
            new |= versions.changes()
            last[group] = [] if versions.last is None else [versions.last]
        new |= listed(self._deleted, last)
        new |= {row.key: None for row in self._old_waiting}
        new |= {row.key: row.value for row in self._new_waiting}
        # In the order of the keys, as the digest needs them.
        keys = [*before, *sorted(new.keys() - before.keys())]
        changes = [(key, new[key]) for key in keys if key in new and new[key] != before.get(key)]
        return Changes(changes, output)

    def _drop(self, versions: VersionChunks, at: int) -> None:
        """Drop what no row needs any more, once a row of the table is processed."""
        history, newest = self._operation.history_ms, versions.last
        if newest is not None:
            # What was there when the history begins is a part of it.
            versions.drop_before(self._marks[at] if history is None else newest.time - history)

    def _forgotten_until(self, at: int) -> int:
        """A key that was deleted then or before is forgotten before a row of the batch, or behind the last."""
        history = self._operation.history_ms
        if history is None:
            return self._marks[min(at, len(self._marks) - 1)]
        # What was forgotten before the batch is not in the store.
        return max(self._table_ms[at - 1] - history, NO_WATERMARK) if at else NO_WATERMARK

    def _known(self, versions: VersionChunks, at: int) -> VersionChunks:
        """What is known of a key before a row of the batch."""
        last = versions.last
        if last is not None and last.gone and last.time <= self._forgotten_until(at):
            versions.clear()
        return versions

    def _met(self, waiting: _Waiting, versions: VersionChunks, at: int) -> Iterator[tuple[bytes, bytes]]:
        """What a row that has waited comes to before a row of the batch."""
        # Where its own time lets it out, that is before a deletion is forgotten by the same time.
        return self._joined(waiting, versions if self._operation.history_ms is None else self._known(versions, at))

    def _joined(self, waiting: _Waiting, versions: VersionChunks) -> Iterator[tuple[bytes, bytes]]:
        operation = self._operation
        found = versions.at(waiting.time)
        if found is not None and not found.gone:
            yield waiting.group, operation.joined.both(waiting.row, found.row)
        elif operation.how == "left":
            yield waiting.group, operation.joined.one(LEFT, waiting.row)
