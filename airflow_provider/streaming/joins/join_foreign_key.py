"""Two tables joined by a column of the left one that holds keys of the right one: a table with the left one's keys.

Three operations, each behind the other, as in Kafka Streams (KIP-213):

1. `ForeignChanges`, by the left table's key: keeps each row, and writes what it becomes to where its foreign key is.
2. `ForeignJoin`, by the foreign key: keeps the right row beside all left rows that name it, and answers each change of
   either with what a left row comes to.
3. `ForeignAnswers`, by the left table's key again: keeps the newest answer, and emits what changes.

A left row whose foreign key becomes another one is answered for by two tasks of the second, and the answers come in any
order. So each row of a key has a *version* that only grows, and an older answer replaces none that is newer.

What goes from the first to the second, and from there to the third, are values of `joins.join_rows` with more flags, no
time, and this in the place of the row, little-endian::

    bit 4 of the flags: the row is no more, where this was written to; bit 5: it came from, or has gone to, another
    foreign key; bit 6: its foreign key is null

    i64   the version
    u32   the length of the left key, 0 in an answer, whose record has that key
    ...   the left key
    ...   the members of the left row; in an answer, the joined row, if there is one

What lies in their stores is in ``docs/formats.md``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.deleted_keys import group_of_deleted, is_deleted_key, place_by_side
from airflow_provider.streaming.joins.join_operation import JoinOperation
from airflow_provider.streaming.joins.join_rows import (
    FLAGS,
    LEFT,
    NO_STATE,
    RIGHT,
    ROW,
    How,
    JoinedColumns,
    JoinRows,
    KeptRow,
    newest_row,
    python_row,
)
from airflow_provider.streaming.joins.join_tables import TableRows
from airflow_provider.streaming.joins.newest_row import Change, RowChanges
from airflow_provider.streaming.json.types import type_name, type_names
from airflow_provider.streaming.operations.batch import ChangedState, Changes, Pair, StateReader
from airflow_provider.streaming.operations.operation import BESIDE_GROUPS, Batch, Operation

_KEY_TYPES: Final = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32)
"""Of a foreign key: those whose texts are in JSON what Spark makes of them as a key."""

_CLOSED: Final = 16
_MOVED: Final = 32
_ALONE: Final = 64

_HEAD: Final = struct.Struct("<qI")
_KEPT: Final = struct.Struct("<q")
_ANSWER: Final = struct.Struct("<qQ")
_LENGTH: Final = struct.Struct(">I")

_LEFT_ROWS: Final = BESIDE_GROUPS + b"f"
_VERSION_KEY: Final = BESIDE_GROUPS + b"v"
"""Where the first keeps the last version that it gave."""
_NO_HEAD: Final = bytes(4)
"""In the place of the length of a row's first member, which nobody asks a left row for."""


class _Told(NamedTuple):
    """What is told of a left row, or what the answer is.

    Args:
        key: that the record goes to; in what was read, that it came under.
        left_key: empty in an answer.
        row: the members, or the joined row; empty for none.
    """

    key: bytes
    flags: int
    version: int
    left_key: bytes
    row: bytes


def _encode(told: Sequence[_Told]) -> list[Pair]:
    """Records of the topics between the three."""
    if not told:
        return []
    flags = np.array([one.flags for one in told], np.uint8)
    rows = [_HEAD.pack(one.version, len(one.left_key)) + one.left_key + one.row for one in told]
    values = JoinRows().encode(flags, np.zeros(len(told), np.int64), pa.array(rows, pa.binary()))
    return list(zip((one.key for one in told), values, strict=True))


def _decode(rows: pa.Table) -> Iterator[_Told]:
    """The inverse."""
    for key, flags, row in zip(*(rows.column(name).to_pylist() for name in ("__key", FLAGS, ROW)), strict=True):
        version, length = _HEAD.unpack_from(row)
        at = _HEAD.size + length
        yield _Told(key, flags, version, row[_HEAD.size : at], row[at:])


@dataclass(frozen=True, kw_only=True)
class ForeignChanges(RowChanges):
    """The first: an operation that keeps the newest row of each left key, and tells its foreign keys what it becomes.

    Args:
        on: the column with the foreign key.
        how: an inner join has no row without one.
    """

    on: str
    how: How

    side_written: ClassVar[int] = LEFT

    @property
    def written_key(self) -> str:
        return self.on

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        kept = super().signature(key_name, key_type, schema)
        kind = None if schema is None else schema.field(self.on).type
        if kind is not None and not any(is_kind(kind) for is_kind in _KEY_TYPES):
            raise ConfigurationError(
                f"join(on={self.on!r}) of two tables names a foreign key of type {type_name(kind)}, whose text may be "
                "another one than that of the other table's key: cast it with with_column() to STRING, as the other "
                "table has it."
            )
        return dataclasses.replace(kept, join=f"{kept.join}, for the {self.how} join on {self.on}")

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`: all that changes in one batch has one version."""
        changes, changed = self._changed(batch.rows, state)
        (last,) = state.get_many([_VERSION_KEY])
        version = 1 + (0 if last is None else _KEPT.unpack(last)[0])
        if not changed:
            return Changes(changes, [])
        # In the order of the keys, which it is behind.
        counted = [*changes, (_VERSION_KEY, _KEPT.pack(version))]
        return Changes(counted, [pair for change in changed for pair in self._records(change, version)])

    def _records(self, change: Change, version: int) -> list[Pair]:
        key, before, after = change
        old, new = (None if row is None else _place(row, key) for row in (before, after))
        moved = _MOVED if old is not None and new is not None and old != new else 0
        told = []
        if old is not None and (new is None or moved):
            told.append(_Told(old[0], old[1] | _CLOSED | moved, version, key, b""))
        if new is not None and after is not None:
            told.append(_Told(new[0], new[1] | moved, version, key, after[4:]))
        return _encode(told)

    @property
    def text(self) -> str:
        return f"{super().text}, write what changes to where its {self.on} is"

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        """See `Operation.groups`; the version is of none."""
        return super().groups([key for key in keys if key != _VERSION_KEY])

    @property
    def _in_group(self) -> tuple[str, ...]:
        return (self.on,) if self.how == "inner" else ()


def _place(row: bytes, left_key: bytes) -> tuple[bytes, int]:
    """Of a left row, whose first member is its foreign key, that of its records, and the flags."""
    end = 4 + int.from_bytes(row[:4], "little")
    (foreign,) = json.loads(b"{%b}" % row[4:end]).values()
    if foreign is None:
        return left_key, _ALONE
    return (foreign if isinstance(foreign, str) else json.dumps(foreign)).encode(), 0


@dataclass(frozen=True, kw_only=True)
class ForeignJoin(JoinOperation):
    """The second: an operation that keeps the right row of each foreign key, and the left rows that name it.

    Args:
        how: ``inner`` or ``left``.
        left_key: the column with the left table's key.
    """

    # No row can be left out: it is told later that it is no more.
    shared: ClassVar[bool] = True

    joined: JoinedColumns
    how: How
    left_key: str

    @property
    def written_key(self) -> str:
        return self.left_key

    @property
    def kept(self) -> str:
        return f"{self.how} join of two tables on a foreign key"

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        """See `Operation.place`: the right table has a time."""
        return place_by_side(batch)

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`: an answer for each left row that came, and for all whose right row has changed."""
        is_right = pc.not_equal(pc.bit_wise_and(batch.rows.column(FLAGS), pa.scalar(RIGHT, pa.uint8())), 0)
        rights, told = batch.rows.filter(is_right), list(_decode(batch.rows.filter(pc.invert(is_right))))
        changes, changed = list[Pair](), list[Change]()
        if rights.num_rows:
            changes, changed = TableRows(_right, rights).changed(state)
        kept = {
            _left_row(one.key, one.left_key): None if one.flags & _CLOSED else _KEPT.pack(one.version) + one.row
            for one in told
            if not one.flags & _ALONE
        }
        now = ChangedState(state, changes)
        foreign = sorted({one.key for one in told if not one.flags & (_ALONE | _CLOSED)})
        right = {key: newest_row(found) for key, found in zip(foreign, now.get_many(foreign), strict=True)}
        # One without a foreign key came under its own, which may be that of a right row.
        answers = [self._answer(one, None if one.flags & _ALONE else right.get(one.key)) for one in told]
        for key, _, row in changed:
            prefix = _left_row(key)
            for place, found in state.range(prefix, prefix[:-1] + b"\x01"):
                if place not in kept:
                    (version,) = _KEPT.unpack_from(found)
                    left_key = place[len(prefix) :]
                    answers.append(self._answer(_Told(key, 0, version, left_key, found[_KEPT.size :]), row))
        keys = sorted(kept)
        before = state.get_many(keys)
        changes += [(key, kept[key]) for key, old in zip(keys, before, strict=True) if old != kept[key]]
        return Changes(sorted(changes), _encode(answers))

    def _answer(self, told: _Told, right: bytes | None) -> _Told:
        row = b""
        if not told.flags & _CLOSED:
            left = _NO_HEAD + told.row
            if right is not None:
                row = self.joined.both(left, right)
            elif self.how == "left":
                row = self.joined.one(LEFT, left)
        return _Told(told.left_key, told.flags & (_CLOSED | _MOVED), told.version, b"", row)

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        return [
            _foreign_key(key) if key.startswith(_LEFT_ROWS) else group_of_deleted(key) if is_deleted_key(key) else key
            for key in keys
        ]

    @property
    def text(self) -> str:
        return self.kept

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the right rows."""
        rows = map(newest_row, states)
        return [None if row is None else python_row(row) for row in rows]


def _left_row(foreign_key: bytes, left_key: bytes = b"") -> bytes:
    """Where a left row lies; without its key, what all of its foreign key begin with."""
    return b"%b%b%b\x00%b" % (_LEFT_ROWS, _LENGTH.pack(len(foreign_key)), foreign_key, left_key)


def _foreign_key(place: bytes) -> bytes:
    at = len(_LEFT_ROWS) + _LENGTH.size
    return place[at : at + _LENGTH.unpack_from(place, len(_LEFT_ROWS))[0]]


def _right(sides: Sequence[KeptRow | None]) -> bytes | None:
    row = sides[RIGHT]
    return None if row is None or row.gone else row.row


@dataclass(frozen=True, kw_only=True)
class ForeignAnswers(Operation):
    """The third: an operation that keeps the newest answer of each left key, and emits what has changed.

    A key that has no row, and of which no older answer can come, is forgotten. That is so once each move that was told
    by one of its two foreign keys was told by the other: what a foreign key tells comes in order, so that of the last
    one everything has come, and of the one before it once that has told that the row has gone.
    """

    # As of `ForeignJoin`.
    shared: ClassVar[bool] = True

    columns: tuple[str, ...]

    @property
    def decoder(self) -> JoinRows:
        return JoinRows()

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        return StoreSignature(
            key=key_name,
            key_type=type_name(key_type),
            operation="table",
            join="the newest answer of a join on a foreign key, and which moves are half told",
            columns=type_names(schema, self.columns),
        )

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        keys = sorted(set(batch.rows.column("__key").to_pylist()))
        before = dict(zip(keys, state.get_many(keys), strict=True))
        was = {key: _answer(kept) for key, kept in before.items()}
        now = dict(was)
        for told in _decode(batch.rows):
            version, half_told, row = now[told.key]
            closed, moved = told.flags & _CLOSED, told.flags & _MOVED
            if moved:
                half_told ^= _fingerprint(told.version)
            # Where a row has gone to another foreign key, that one has the answer.
            if not (closed and moved) and told.version >= version:
                version, row = told.version, told.row
            now[told.key] = (version, half_told, row)
        changes, output = list[Pair](), list[Pair]()
        for key, (version, half_told, row) in now.items():
            kept = _ANSWER.pack(version, half_told) + row if row or half_told else None
            if kept != before[key]:
                changes.append((key, kept))
            if row != was[key][2]:
                output.append((key, row or None))
        return Changes(changes, output)

    @property
    def text(self) -> str:
        return "keep the newest answer of each key"

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the joined rows."""
        return [json.loads(row) if (row := _answer(state)[2]) else None for state in states]


def _fingerprint(version: int) -> int:
    """Of a move, which has its row's version; of several the exclusive or, so that one that is told twice is out."""
    return int.from_bytes(hashlib.blake2b(_KEPT.pack(version), digest_size=8).digest(), "little")


def _answer(state: bytes | None) -> tuple[int, int, bytes]:
    """Version, the fingerprint of the moves that are half told, and the joined row."""
    if state is None:
        return 0, 0, b""
    if len(state) < _ANSWER.size:
        raise ConfigurationError(NO_STATE)
    version, half_told = _ANSWER.unpack_from(state)
    return version, half_told, state[_ANSWER.size :]
