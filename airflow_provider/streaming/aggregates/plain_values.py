"""Values of a column as integers or bytes that have its order: what is kept of them is compared, and always the same.

``docs/formats.md`` says which; -0.0 is 0.0, and there is one NaN, the greatest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider.streaming.aggregates.accumulator import (
    Accumulator,
    Function,
    Kind,
    as_kind,
    kind_of,
    to_array,
    to_column,
)
from airflow_provider.streaming.json.row_codec import Column

Plain = int | bytes

_LIFT: Final = 10**38
_BELOW_SIGN: Final = np.int64(2**63 - 1)


@dataclass(frozen=True)
class PlainValues:
    """Those of columns of one type."""

    logical: pa.DataType

    def read(self, column: pa.ChunkedArray) -> list[Plain | None]:
        """By row."""
        kept = to_column(as_kind(column, self._as_min), self._as_min.kind)
        if kept.texts is not None:
            decimals = self._as_min.kind is Kind.DECIMAL
            return [_lifted(t, self.logical.scale) if decimals and t is not None else t for t in kept.texts]
        values = _ordered(kept.values.view(np.float64)) if self._as_min.kind is Kind.DOUBLE else kept.values
        return [value if ok else None for value, ok in zip(values.tolist(), kept.ok.tolist(), strict=True)]

    def array(self, values: Sequence[Plain | None]) -> pa.Array:
        """The inverse of `read`."""
        ok = np.fromiter((value is not None for value in values), bool, len(values))
        numbers = np.zeros(len(values), np.int64)
        texts: list[bytes | None] | None = None
        if self._as_min.kind is Kind.DECIMAL:
            texts = [_digits(v, self.logical.scale) if isinstance(v, bytes) else None for v in values]
        elif self._as_min.kind is Kind.TEXT:
            texts = [v if isinstance(v, bytes) else None for v in values]
        else:
            numbers = np.fromiter((v if isinstance(v, int) else 0 for v in values), np.int64, len(values))
            if self._as_min.kind is Kind.DOUBLE:
                numbers = _inverted(numbers)
        return to_array(Column(ok, numbers, texts), self._as_min)

    @property
    def _as_min(self) -> Accumulator:
        kind = kind_of(self.logical)
        assert kind is not None, "it was looked at before"
        return Accumulator(function=Function.MIN, column=None, kind=kind, logical=self.logical)


def _ordered(doubles: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return _inverted(np.where(np.isnan(doubles), np.nan, doubles + 0.0).view(np.int64))


def _inverted(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Between doubles' bits and integers in their order: each way is the other."""
    return np.where(bits < 0, bits ^ _BELOW_SIGN, bits)


def _lifted(digits: bytes, scale: int) -> bytes:
    whole, _, fraction = digits.decode().partition(".")
    return b"%039d" % (int(whole + fraction.ljust(scale, "0")) + _LIFT)


def _digits(lifted: bytes, scale: int) -> bytes:
    number = int(lifted) - _LIFT
    return format(Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)), "f").encode()
