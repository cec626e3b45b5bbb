"""How an aggregate's state lies in the store and the changelog: ``docs/formats.md`` has the bytes.

The fixed part of a row makes encoding and decoding of many a few numpy calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider.errors import ConfigurationError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass
class Column:
    """One accumulator of many keys.

    Args:
        ok: where it has a value.
        values: integers, or doubles viewed as integers; for texts their lengths.
        texts: for a text accumulator, the texts (None where null); None for a number.
    """

    ok: Bools
    values: Ints
    texts: list[bytes | None] | None = None

    @classmethod
    def empty(cls, ok: Bools, is_text: bool) -> Column:
        """Of keys of which no value was seen."""
        return cls(ok, np.zeros(len(ok), np.int64), [None] * len(ok) if is_text else None)

    def put(self, places: Sequence[int], part: Column) -> None:
        """Take what is known of some keys."""
        self.ok[places], self.values[places] = part.ok, part.values
        if self.texts is not None and part.texts is not None:
            for place, text in zip(places, part.texts, strict=True):
                self.texts[place] = text


@dataclass(frozen=True)
class RowCodec:
    """Encodes and decodes rows of accumulators.

    Args:
        texts: by accumulator, whether it is a text.
    """

    texts: tuple[bool, ...]
    layout: int = 1

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The fixed part."""
        n = len(self.texts)
        return np.dtype([("layout", "u1"), ("ok", "u1", (n,)), ("values", "<i8", (n,))])

    def encode(self, columns: Sequence[Column]) -> list[bytes]:
        """Rows of bytes, one per key."""
        size = len(columns[0].ok)
        fixed = np.zeros(size, self.dtype)
        fixed["layout"] = self.layout
        for i, column in enumerate(columns):
            fixed["ok"][:, i] = column.ok
            fixed["values"][:, i] = np.where(column.ok, column.values, 0)
        buffer, width = fixed.tobytes(), self.dtype.itemsize
        rows = [buffer[at : at + width] for at in range(0, size * width, width)]
        for column in columns:
            if column.texts is not None:
                rows = [row + text if text else row for row, text in zip(rows, column.texts, strict=True)]
        return rows

    def decode(self, rows: Sequence[bytes | None]) -> list[Column]:
        """The inverse of `encode`; a missing row is null in every accumulator.

        Raises:
            ConfigurationError: a row was written with other accumulators or in another layout.
        """
        width = self.dtype.itemsize
        empty = bytes([self.layout]) + bytes(width - 1)
        full = [empty if row is None else row for row in rows]
        has_texts = any(self.texts)
        try:
            fixed = np.frombuffer(b"".join([row[:width] for row in full] if has_texts else full), self.dtype)
        except ValueError as error:
            raise self._other_layout() from error
        if len(fixed) != len(full) or not (fixed["layout"] == self.layout).all():
            raise self._other_layout()
        columns = [
            Column(fixed["ok"][:, i].astype(bool), np.ascontiguousarray(fixed["values"][:, i]))
            for i in range(len(self.texts))
        ]
        start: Ints = np.full(len(full), width, np.int64)
        for column, is_text in zip(columns, self.texts, strict=True):
            if is_text:
                end = start + np.where(column.ok, column.values, 0)
                column.texts = [
                    row[a:b] if ok else None
                    for row, a, b, ok in zip(full, start.tolist(), end.tolist(), column.ok.tolist(), strict=True)
                ]
                start = end
        return columns

    def _other_layout(self) -> ConfigurationError:
        return ConfigurationError(
            f"The state was written with other aggregates than the {len(self.texts)} accumulators of layout "
            f"{self.layout}, which its commits name: another program wrote it, or the store was changed by hand. Begin "
            "again with a new application id or store name, or it would be misread."
        )
