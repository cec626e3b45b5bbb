"""The rows of a store of aggregates, of whatever version of the job wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from airflow_provider.common.store_signature import KeptAggregate, StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Function, Kind
from airflow_provider.streaming.json.row_codec import Bools, Column, RowCodec

_COUNT: Final = Function.COUNT.value
_TEXTS: Final = (Kind.TEXT.value, Kind.DECIMAL.value)


@dataclass(frozen=True)
class StateRows:
    """Reads rows of every layout that a store has had, and writes those of the newest.

    Args:
        aggregates: all that the rows may hold.
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
                    _put(column, at, part)
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
        size, aggregate = len(existed), self.aggregates[place]
        return [
            Column(
                existed.copy() if aggregate.function == _COUNT else np.zeros(size, bool),
                np.zeros(size, np.int64),
                [None] * size if kind in _TEXTS else None,
            )
            for kind in aggregate.kinds
        ]


def _put(column: Column, at: list[int], part: Column) -> None:
    column.ok[at], column.values[at] = part.ok, part.values
    if column.texts is not None and part.texts is not None:
        for place, text in zip(at, part.texts, strict=True):
            column.texts[place] = text
