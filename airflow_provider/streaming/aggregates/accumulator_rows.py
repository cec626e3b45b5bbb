"""Rows of accumulators: in a store, of whatever version of the job wrote them, and on their way to another stage.

``docs/formats.md`` has the bytes. A record says by itself what is in it: where a job gets another aggregate, those on
the way still have the old ones. One that has a name of the job's for something else was written by a version that the
job cannot follow.
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

from airflow_provider.common.store_signature import KeptAggregate, StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Accumulator, Function, Kind, to_array
from airflow_provider.streaming.json.json_decoder import Decoded
from airflow_provider.streaming.json.row_codec import Bools, Column, RowCodec

_TEXTS: Final = (Kind.TEXT.value, Kind.DECIMAL.value, Kind.BYTES.value)


@dataclass(frozen=True)
class StateRows:
    """Reads rows of every layout that a store has had, and writes those of the newest.

    Args:
        layouts: by number from 1 on, the places of the aggregates in a row.
        layout: the number of the one that is written.
        places: of the job's aggregates, in its own order.
    """

    aggregates: tuple[KeptAggregate, ...]
    layouts: tuple[tuple[int, ...], ...]
    layout: int
    places: tuple[int, ...]

    @classmethod
    def fresh(cls, aggregates: tuple[KeptAggregate, ...]) -> StateRows:
        """Of a store that holds nothing."""
        places = tuple(range(len(aggregates)))
        return cls(aggregates, (places,), 1, places)

    @classmethod
    def of(cls, stored: StoreSignature, aggregates: Sequence[KeptAggregate]) -> StateRows:
        """Of a store that a job goes on with.

        Args:
            stored: its signature, continued by the job's.
        """
        by_name = {stored.aggregates[place].name: place for place in stored.places}
        return cls(stored.aggregates, stored.layouts, stored.layout, tuple(by_name[a.name] for a in aggregates))

    def decode(self, rows: Sequence[bytes | None]) -> list[tuple[Bools, Column]]:
        """What is kept of each key.

        Returns:
            For each accumulator, in the order of the job's aggregates: by key whether its row holds it, and its values.
            A missing row is null in every accumulator, and so is one that its layout lacks, except that a count is 0.

        Raises:
            ConfigurationError: a row is of no layout of this store.
        """
        existed = np.fromiter((row is not None for row in rows), bool, len(rows))
        # Where one version of the job wrote all of it, no row has to be looked at.
        numbers = {self.layout} if len(self.layouts) == 1 else {row[0] for row in rows if row is not None}
        if numbers <= {self.layout}:
            decoded = self._by_place(self.layout, self._codecs[self.layout - 1].decode(rows))
            return [(existed, column) for place in self.places for column in decoded[place]]
        by_place = {place: self._empty(place, existed) for place in self.places}
        found = {place: np.zeros(len(rows), bool) for place in self.places}
        for number in sorted(numbers):
            if not 1 <= number <= len(self.layouts):
                raise ConfigurationError(
                    f"The state holds a row of layout {number}, and its commits name {len(self.layouts)}: another "
                    "program wrote it. Begin again with a new application id or store name."
                )
            at = [place for place, row in enumerate(rows) if row is not None and row[0] == number]
            some = self._by_place(number, self._codecs[number - 1].decode([rows[i] for i in at]))
            for place in some.keys() & by_place.keys():
                found[place][at] = True
                for column, part in zip(by_place[place], some[place], strict=True):
                    column.put(at, part)
        return [(found[place], column) for place in self.places for column in by_place[place]]

    def encode(self, columns: Sequence[Column]) -> list[bytes]:
        """Rows of the newest layout, one per key."""
        left = iter(columns)
        by_place = {place: [next(left) for _ in self.aggregates[place].kinds] for place in self.places}
        layout = self.layouts[self.layout - 1]
        return self._codecs[self.layout - 1].encode([column for place in layout for column in by_place[place]])

    @cached_property
    def _codecs(self) -> list[RowCodec]:
        return [
            RowCodec(tuple(kind in _TEXTS for place in places for kind in self.aggregates[place].kinds), number)
            for number, places in enumerate(self.layouts, start=1)
        ]

    def _by_place(self, number: int, columns: Sequence[Column]) -> dict[int, list[Column]]:
        left = iter(columns)
        return {place: [next(left) for _ in self.aggregates[place].kinds] for place in self.layouts[number - 1]}

    def _empty(self, place: int, existed: Bools) -> list[Column]:
        """As after rows none of which was seen."""
        aggregate = self.aggregates[place]
        counts = aggregate.function == Function.COUNT.value and aggregate.kinds == (Kind.INTEGER.value,)
        seen = existed if counts else np.zeros(len(existed), bool)
        return [Column.empty(seen.copy(), kind in _TEXTS) for kind in aggregate.kinds]


_FORMAT: Final = 2
_ENTRY: Final = struct.Struct("<IIB")

_STRANGE: Final = "it is no record of an earlier stage: another program writes into this topic, or it was damaged"
_OTHER: Final = (
    "it holds the aggregate {!r} as another version of the job computed it: let that version process what it wrote, or "
    "give the changed aggregate another name"
)


@dataclass(frozen=True)
class PartialRows:
    """Writes accumulators as values of records, and reads them again."""

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
                column.put(places, part)

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
        seen = (np.full(size, accumulator.function is Function.COUNT) for accumulator in self.accumulators)
        return [Column.empty(ok, is_text) for ok, is_text in zip(seen, self._texts, strict=True)]

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
