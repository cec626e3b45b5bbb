"""How rows lie in the store of a join, and in its changelog.

One after the other, little-endian::

    u8    bit 0: the side, 0 left and 1 right; bit 1: a deletion; bit 3: the row has had a partner
    i64   its time, epoch ms
    u32   the length of the row
    ...   the row (`joins.join_rows`)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.join_rows import GONE, RIGHT

MATCHED: Final = 8

_HEAD: Final = struct.Struct("<BqI")
HEAD_BYTES: Final = _HEAD.size
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
    pack = _HEAD.pack
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
            flags, time, size = _HEAD.unpack_from(state, at)
            at += _HEAD.size + size
            found.append(KeptRow(time, flags, state[at - size : at]))
    except struct.error:
        at = -1
    if at != len(state):
        raise ConfigurationError(
            "The state of a key is not one of a join: another operation wrote the store. Begin again with a new "
            "application id or another name of the join."
        )
    return found


def newest_row(state: bytes | None) -> bytes | None:
    """The last of a key's rows; None where there is none, or it says that there is none."""
    # The only one, most often; every key of every batch comes by here.
    if state is not None and len(state) >= HEAD_BYTES:
        flags, _, size = _HEAD.unpack_from(state)
        if HEAD_BYTES + size == len(state):
            return None if flags & GONE else state[HEAD_BYTES:]
    rows = decode_rows(state)
    return rows[-1].row if rows and not rows[-1].gone else None


def python_row(row: bytes) -> dict[str, Any]:
    """A row as people read it."""
    found: dict[str, Any] = json.loads(b"{%b}" % row[4:])
    return found
