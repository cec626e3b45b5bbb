"""Rows on their way to a join, and what becomes of two of them.

Both sides of a join write into one topic, so that it has one order. The value of such a record, little-endian::

    u8    1, the format
    u8    bit 0: the side, 0 left and 1 right; bit 1: a deletion; bit 2: the key is null
    i64   the row's time, epoch ms
    u32   the length of the first member
    ...   the members of the row's JSON object, that of the key first; none in a deletion

What follows the time is called a *row*: a join keeps it and puts two of them together without decoding it. So types
cost nothing, and a row says by itself which columns it has: one that was written before a column was added lacks it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from airflow_provider.streaming.event_time import EVENT_MS
from airflow_provider.streaming.operations.json_decoder import Decoded
from airflow_provider.streaming.operations.json_rows import json_rows

__all__ = ["FLAGS", "GONE", "LEFT", "RIGHT", "ROW", "UNKEYED", "How", "JoinRows", "JoinedColumns", "rows_of_columns"]

How = Literal["inner", "left", "outer"]

FLAGS: Final = "__flags"
"""The column of the rows in a worker that holds the second byte of the value."""
ROW: Final = "__row"
"""The column that holds a row."""

LEFT: Final = 0
RIGHT: Final = 1
"""The side, in the flags."""
GONE: Final = 2
UNKEYED: Final = 4

_FORMAT: Final = 1
_HEAD: Final = np.dtype([("format", "u1"), ("flags", "u1"), ("time", "<i8")])
_PACK: Final = struct.Struct("<BBq").pack
_LENGTH: Final = struct.Struct("<I")
_NO_ROW: Final = _LENGTH.pack(0)
_NO_HEAD: Final = bytes(_HEAD.itemsize)

_STRANGE: Final = "it is no row of an earlier stage: another program writes into this topic, or it was damaged"


@dataclass(frozen=True)
class JoinRows:
    """Reads and writes the values of the topic in front of a join."""

    def encode(self, flags: Sequence[int], times: Sequence[int], rows: Sequence[bytes]) -> list[bytes]:
        """Values, one per row.

        Args:
            flags: as above.
            times: epoch ms.
            rows: as `rows_of_columns` makes them; of a deletion it does not matter.
        """
        return [
            _PACK(_FORMAT, flag, time) + (_NO_ROW if flag & GONE else row)
            for flag, time, row in zip(flags, times, rows, strict=True)
        ]

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """Columns `FLAGS`, ``__event_ms`` and `ROW`.

        Args:
            values: binary.
        """
        given: list[bytes | None] = values.to_pylist()
        size = _HEAD.itemsize
        bad = dict.fromkeys(
            (at for at, v in enumerate(given) if v is None or len(v) < size + _LENGTH.size or v[0] != _FORMAT), _STRANGE
        )
        if bad:
            given = [None if at in bad else value for at, value in enumerate(given)]
        heads = np.frombuffer(b"".join([_NO_HEAD if value is None else value[:size] for value in given]), _HEAD)
        columns = {
            FLAGS: pa.array(heads["flags"]),
            EVENT_MS: pa.array(heads["time"].astype(np.int64)),
            ROW: pa.array([None if value is None else value[size:] for value in given], pa.binary()),
        }
        return Decoded(columns, bad)


def rows_of_columns(key: tuple[str, pa.Array], others: Sequence[tuple[str, pa.Array]]) -> list[bytes]:
    """Rows of columns, as they are described above.

    Args:
        key: name and values of the column that is joined on, with its own type.
        others: the other columns.
    """
    keys = [member[1:-1] for member in json_rows([key])]
    if not others:
        return [_LENGTH.pack(len(member)) + member for member in keys]
    rests = json_rows(others)
    return [
        b"%b%b,%b" % (_LENGTH.pack(len(member)), member, rest[1:-1]) for member, rest in zip(keys, rests, strict=True)
    ]


@dataclass(frozen=True)
class JoinedColumns:
    """What a join makes of two rows, or of one that has no partner: a JSON object.

    Args:
        on: the key's column, which both sides have.
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
        return b"{%b%b}" % (left[4:], right[4 + _LENGTH.unpack_from(right)[0] :])

    def one(self, side: int, row: bytes) -> bytes:
        """Of a row without a partner: null in the columns of the other side."""
        if side == LEFT:
            return b"{%b%b}" % (row[4:], self._nulls[RIGHT])
        end = 4 + _LENGTH.unpack_from(row)[0]
        return b"{%b%b%b}" % (row[4:end], self._nulls[LEFT], row[end:])

    @cached_property
    def _nulls(self) -> tuple[bytes, bytes]:
        left, right = (
            b"".join(b",%b:null" % json.dumps(n).encode() for n in names) for names in (self.left, self.right)
        )
        return left, right

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed on demand."""
        return {"on": self.on, "left": self.left, "right": self.right}
