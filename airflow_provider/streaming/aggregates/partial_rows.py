"""Aggregates of a part of a key's rows, on their way to the stage that puts the parts together.

The value of such a record, little-endian::

    u8                  2, the format
    u8                  how many aggregates: n
    (u32, u32, u8) x n  CRC-32 of the aggregate's name; CRC-32 of what it is; bit 0: whether it has two accumulators,
                        bits 1, 2: which are texts
    ...                 the accumulators, as `json.row_codec` writes them, of layout 1

So a record says by itself what is in it: where a job gets another aggregate, those on the way still have the old ones.
One that has a name of the job's for something else was written by a version that the job cannot follow.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from airflow_provider.common.store_signature import KeptAggregate
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Accumulator, Function, Kind, to_array
from airflow_provider.streaming.json.json_decoder import Decoded
from airflow_provider.streaming.json.row_codec import Column, RowCodec

_FORMAT: Final = 2
_ENTRY: Final = struct.Struct("<IIB")
_TEXTS: Final = (Kind.TEXT.value, Kind.DECIMAL.value)

_STRANGE: Final = "it is no record of an earlier stage: another program writes into this topic, or it was damaged"
_OTHER: Final = (
    "it holds the aggregate {!r} as another version of the job computed it: let that version process what it wrote, or "
    "give the changed aggregate another name"
)


@dataclass(frozen=True)
class PartialRows:
    """Writes accumulators as values of records, and reads them again.

    Args:
        aggregates: of the job, in its order.
        accumulators: theirs, in the same order.
    """

    aggregates: tuple[KeptAggregate, ...]
    accumulators: tuple[Accumulator, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the accumulators' columns, in their order."""
        return tuple(
            name
            for aggregate in self.aggregates
            for name in (aggregate.name, f"{aggregate.name}\0count")[: len(aggregate.kinds)]
        )

    def encode(self, columns: Sequence[Column]) -> list[bytes]:
        """Values, one per key."""
        head = self._head
        return [head + row for row in RowCodec(self._texts).encode(columns)]

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """The accumulators as columns, under `names`; an aggregate that a value lacks is as of no rows.

        A value that has an aggregate's name for another meaning is bad, like one of another program.
        """
        rows: list[bytes | None] = values.to_pylist()
        by_head, bad = dict[bytes, list[int]](), dict[int, str]()
        for at, row in enumerate(rows):
            head = b"" if row is None else row[: 2 + _ENTRY.size * row[1]] if len(row) > 1 else b""
            by_head.setdefault(head, []).append(at)
        columns = self._empty(len(rows))
        for head, places in by_head.items():
            if (other := self._meant_otherwise(head)) is not None:
                bad |= dict.fromkeys(places, _OTHER.format(other))
                continue
            try:
                self._fill(columns, head, places, [row[len(head) :] for at in places if (row := rows[at]) is not None])
            except (ValueError, IndexError, struct.error, ConfigurationError):
                bad |= dict.fromkeys(places, _STRANGE)
        arrays = (to_array(column, accumulator) for column, accumulator in zip(columns, self.accumulators, strict=True))
        return Decoded(dict(zip(self.names, arrays, strict=True)), bad)

    def _fill(self, columns: Sequence[Column], head: bytes, places: list[int], rows: list[bytes]) -> None:
        if head == self._head:
            found: Sequence[Column | None] = RowCodec(self._texts).decode(rows)
        else:
            found = self._of_another_version(head, rows)
        for column, part in zip(columns, found, strict=True):
            if part is not None:
                _put(column, places, part)

    def _of_another_version(self, head: bytes, rows: list[bytes]) -> list[Column | None]:
        """By accumulator, what the rows hold of it; None where they lack its aggregate."""
        if not _is_head(head):
            raise ValueError(_STRANGE)
        entries = list(_ENTRY.iter_unpack(head[2:]))
        texts = tuple(bool(code & bit) for *_, code in entries for bit in ((2, 4) if code & 1 else (2,)))
        left = iter(RowCodec(texts).decode(rows))
        by_entry = {entry: [next(left) for _ in range(1 + (entry[2] & 1))] for entry in entries}
        found: list[Column | None] = []
        for aggregate in self.aggregates:
            found += by_entry.get(_entry(aggregate), [None] * len(aggregate.kinds))
        return found

    def _meant_otherwise(self, head: bytes) -> str | None:
        """The name of an aggregate that rows of a head hold, and that means something else in it; None for none."""
        if head == self._head or not _is_head(head):
            return None
        entries = {entry[0]: entry for entry in _ENTRY.iter_unpack(head[2:])}
        own = ((aggregate.name, _entry(aggregate)) for aggregate in self.aggregates)
        return next((name for name, entry in own if entries.get(entry[0], entry) != entry), None)

    def _empty(self, size: int) -> list[Column]:
        return [
            Column(
                np.full(size, accumulator.function is Function.COUNT),
                np.zeros(size, np.int64),
                [None] * size if is_text else None,
            )
            for accumulator, is_text in zip(self.accumulators, self._texts, strict=True)
        ]

    @cached_property
    def _texts(self) -> tuple[bool, ...]:
        return tuple(kind in _TEXTS for aggregate in self.aggregates for kind in aggregate.kinds)

    @cached_property
    def _head(self) -> bytes:
        return bytes([_FORMAT, len(self.aggregates)]) + b"".join(_ENTRY.pack(*_entry(a)) for a in self.aggregates)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed on demand."""
        return {"aggregates": self.aggregates, "accumulators": self.accumulators}


def _is_head(head: bytes) -> bool:
    return len(head) >= 2 and head[0] == _FORMAT and len(head) == 2 + _ENTRY.size * head[1]


def _entry(aggregate: KeptAggregate) -> tuple[int, int, int]:
    what = repr((aggregate.name, aggregate.function, aggregate.column, aggregate.type, aggregate.kinds))
    code = len(aggregate.kinds) - 1
    for number, kind in enumerate(aggregate.kinds):
        code |= (kind in _TEXTS) << (number + 1)
    return zlib.crc32(aggregate.name.encode()), zlib.crc32(what.encode()), code


def _put(column: Column, places: list[int], part: Column) -> None:
    column.ok[places], column.values[places] = part.ok, part.values
    if column.texts is not None and part.texts is not None:
        for place, text in zip(places, part.texts, strict=True):
            column.texts[place] = text
