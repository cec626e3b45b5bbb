"""Rows on their way to a join, in its store, and what becomes of two of them: ``docs/formats.md`` has the bytes.

Both sides of a join write into one topic, so that it has one order. What follows the time in the value of such a record
is called a *row*: a join keeps it and puts two of them together without decoding it. So types cost nothing, and a row
says by itself which columns it has: one that was written before a column was added lacks it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.json.json_decoder import Decoded
from airflow_provider.streaming.json.json_rows import json_members
from airflow_provider.streaming.terms.event_time import EVENT_MS

How = Literal["inner", "left", "outer"]

FLAGS: Final = "__flags"
"""The column of the rows in a worker that holds the second byte of the value."""
DELETED: Final = "__deleted"
"""The column of a table's rows in a worker that says whether the record deletes its key."""
ROW: Final = "__row"

LEFT: Final = 0
RIGHT: Final = 1
"""The side, in the flags."""
GONE: Final = 2
UNKEYED: Final = 4

_FORMAT: Final = 1
_HEAD: Final = np.dtype([("format", "u1"), ("flags", "u1"), ("time", "<i8")])
_LENGTH: Final = struct.Struct("<I")
NO_ROW: Final = _LENGTH.pack(0)
"""Of a deletion."""
_LONGEST: Final = 2**31 - 1
"""Of any value; Arrow does not take the end of a slice to be open."""
_NO_HEAD: Final = bytes(_HEAD.itemsize)

_STRANGE: Final = "it is no row of an earlier stage: another program writes into this topic, or it was damaged"


@dataclass(frozen=True)
class JoinRows:
    """Reads and writes the values of the topic in front of a join."""

    def encode(self, flags: npt.NDArray[np.uint8], times: npt.NDArray[np.int64], rows: pa.Array) -> list[bytes]:
        """Values, one per row.

        Args:
            rows: as `rows_of_columns` makes them; of a deletion it does not matter.
        """
        heads = np.empty(len(rows), _HEAD)
        heads["format"], heads["flags"], heads["time"] = _FORMAT, flags, times
        gone = (flags & GONE) != 0
        if gone.any():
            rows = pc.if_else(pa.array(gone), pa.scalar(NO_ROW), rows)
        values: list[bytes] = _joined(_binary(heads), rows).to_pylist()
        return values

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """Columns `FLAGS`, ``__event_ms`` and `ROW`."""
        given = pa.concat_arrays([chunk.cast(pa.binary()) for chunk in values.chunks] or [pa.array([], pa.binary())])
        size = _HEAD.itemsize
        good = pc.and_(
            pc.greater_equal(pc.binary_length(given), size + _LENGTH.size),
            pc.starts_with(given, bytes([_FORMAT])),
        )
        bad = dict.fromkeys(np.flatnonzero(~pc.fill_null(good, False).to_numpy(False)).tolist(), _STRANGE)
        if bad:
            given = pc.if_else(good, given, pa.scalar(None, pa.binary()))
        heads = pc.fill_null(pc.binary_slice(given, 0, size), _NO_HEAD)
        parts = np.frombuffer(heads.cast(pa.binary(size)).buffers()[1] or b"", _HEAD, len(heads))
        columns = {
            FLAGS: pa.array(parts["flags"]),
            EVENT_MS: pa.array(parts["time"].astype(np.int64)),
            ROW: pc.binary_slice(given, size, _LONGEST),
        }
        return Decoded(columns, bad)


def rows_of_columns(
    key: tuple[str, pa.Array], others: Sequence[tuple[str, pa.Array]], further: Sequence[tuple[str, pa.Array]] = ()
) -> pa.Array:
    """Rows of columns, as they are described above, binary.

    Args:
        key: name and values of the column that is joined on, with its own type.
        others: the other columns.
        further: columns that count as the first member, too.
    """
    members = json_members([key, *further]).cast(pa.binary())
    lengths = _binary(np.asarray(pc.binary_length(members), "<u4"))
    if not others:
        return _joined(lengths, members)
    return _joined(lengths, members, pa.scalar(b","), json_members(others).cast(pa.binary()))


def _joined(*pieces: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, pa.scalar(b""))


def _binary(items: npt.NDArray[Any]) -> pa.Array:
    """The bytes of each item."""
    kind = pa.binary(items.dtype.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(items), [None, pa.py_buffer(items.tobytes())]).cast(
        pa.binary()
    )


@dataclass(frozen=True)
class JoinedColumns:
    """What a join makes of two rows, or of one that has no partner: a JSON object.

    Args:
        left: the other columns of the left side.
        right: those of the right side, all of other names.
    """

    on: str
    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of all columns, in the order in which they are written."""
        return (self.on, *self.left, *self.right)

    def both(self, left: bytes, right: bytes) -> bytes:
        """Of two rows with the same key, which is written as the left one has it."""
        return b"{%b%b}" % (left[4:], self.beside(right))

    def one(self, side: int, row: bytes) -> bytes:
        """Of a row without a partner: null in the columns of the other side."""
        if side == LEFT:
            return b"{%b%b}" % (row[4:], self._nulls[RIGHT])
        end = 4 + _LENGTH.unpack_from(row)[0]
        return b"{%b%b%b}" % (row[4:end], self._nulls[LEFT], row[end:])

    def of_left(self, lefts: pa.Array, rights: pa.Array) -> pa.Array:
        """Of many rows of the left side, as `both` and `one` make them, binary.

        Args:
            rights: as many, binary: what `beside` takes of a right row, null where there is no partner.
        """
        members = pc.fill_null(rights, self._nulls[RIGHT])
        return _joined(pa.scalar(b"{"), pc.binary_slice(lefts, _LENGTH.size, _LONGEST), members, pa.scalar(b"}"))

    @staticmethod
    def beside(right: bytes) -> bytes:
        """What a right row adds to a left one."""
        return right[_LENGTH.size + _LENGTH.unpack_from(right)[0] :]

    @cached_property
    def _nulls(self) -> tuple[bytes, bytes]:
        left, right = (
            b"".join(b",%b:null" % json.dumps(n).encode() for n in names) for names in (self.left, self.right)
        )
        return left, right

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed on demand."""
        return {"on": self.on, "left": self.left, "right": self.right}


MATCHED: Final = 8

NO_STATE: Final = (
    "The state of a key is not one of a join: another operation wrote the store. Begin again with a new application "
    "id or another name of the join."
)

_KEPT_HEAD: Final = struct.Struct("<BqI")
HEAD_BYTES: Final = _KEPT_HEAD.size
"""Of each row besides itself."""


class KeptRow(NamedTuple):
    """A row as it is kept."""

    time: int
    flags: int
    row: bytes

    @property
    def side(self) -> int:
        """Left or right."""
        return self.flags & RIGHT

    @property
    def gone(self) -> bool:
        """Whether it says that there is none from its time on."""
        return bool(self.flags & GONE)


def encode_rows(rows: Iterable[KeptRow]) -> bytes | None:
    """The state of some rows, in their order; None where there are none."""
    pack = _KEPT_HEAD.pack
    return b"".join([pack(flags, time, len(row)) + row for time, flags, row in rows]) or None


def decode_rows(state: bytes | None) -> list[KeptRow]:
    """The inverse of `encode_rows`.

    Raises:
        ConfigurationError: it is no state of a join.
    """
    found, at = list[KeptRow](), 0
    if state is None:
        return found
    try:
        while at < len(state):
            flags, time, size = _KEPT_HEAD.unpack_from(state, at)
            at += _KEPT_HEAD.size + size
            found.append(KeptRow(time, flags, state[at - size : at]))
    except struct.error:
        at = -1
    if at != len(state):
        raise ConfigurationError(NO_STATE)
    return found


def newest_row(state: bytes | None) -> bytes | None:
    """The last of a key's rows; None where there is none, or it says that there is none."""
    # The only one, most often; every key of every batch comes by here.
    if state is not None and len(state) >= HEAD_BYTES:
        flags, _, size = _KEPT_HEAD.unpack_from(state)
        if HEAD_BYTES + size == len(state):
            return None if flags & GONE else state[HEAD_BYTES:]
    rows = decode_rows(state)
    return rows[-1].row if rows and not rows[-1].gone else None


def python_row(row: bytes) -> dict[str, Any]:
    """A row as people read it."""
    found: dict[str, Any] = json.loads(b"{%b}" % row[4:])
    return found
