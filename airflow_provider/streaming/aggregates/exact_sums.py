"""Aggregates that a row can be taken out of again: what is left is what it would be had the row never been there.

So sums are kept exactly, doubles too, and rounded once, as they come out: with the rounded sums of other aggregates
what a great number took of the others' digits would be missing once it is gone, and NaN would stay for ever. The state
follows from the rows that are in, not from their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Final

import msgspec
import pyarrow as pa

from airflow_provider.streaming.aggregates.accumulator import decimal_mean, sum_type
from airflow_provider.streaming.aggregates.built_in import BuiltIn

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Any]).decode


@dataclass(frozen=True)
class SignedCount(BuiltIn):
    """How many rows, or values that are not null. Its first column is the rows' sign."""

    taken = ("any",)

    def read(self, columns: Sequence[pa.ChunkedArray]) -> list[tuple[Any, ...] | None]:
        """See `Aggregator.read`: of values only whether they are there."""
        signs, *values = (column.to_pylist() for column in columns)
        counted = zip(*values, strict=True) if values else [()] * len(signs)
        return [None if None in row else (sign,) for sign, row in zip(signs, counted, strict=True)]

    def zero(self) -> Any:
        return 0

    def add(self, state: Any, *values: Any) -> Any:
        return state + values[0]

    def result(self, state: Any) -> Any:
        return state

    def type_of_result(self, types: Sequence[pa.DataType]) -> pa.DataType:
        return pa.int64()

    def results(self, states: Sequence[Any], types: Sequence[pa.DataType]) -> pa.Array:
        return pa.array(states, pa.int64())


@dataclass(frozen=True)
class ExactSum(BuiltIn):
    """The sum of the values that are not null. Its columns are the rows' sign, and the values.

    It keeps how many there are, how many of them are NaN, Infinity and -Infinity, and the sum of the others; where they
    are wanted, the sum of their squares, too: as fractions in hexadecimal digits.
    """

    squared: ClassVar[bool] = False
    taken = ("any", "number")

    def read(self, columns: Sequence[pa.ChunkedArray]) -> list[tuple[Any, ...] | None]:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return [None if None in row else row for row in rows]

    def zero(self) -> Any:
        return [0, 0, 0, 0, *[Fraction()] * (2 if self.squared else 1)]

    def add(self, state: Any, *values: Any) -> Any:
        sign, value = values
        state[0] += sign
        if isinstance(value, float) and not math.isfinite(value):
            state[1 if math.isnan(value) else 2 if value > 0 else 3] += sign
            return state
        exact = Fraction(value)
        for power in range(len(state) - 4):
            state[4 + power] += sign * exact ** (power + 1)
        return state

    def encode(self, state: Any) -> bytes:
        return _encode([*state[:4], *(f"{sum_.numerator:x}/{sum_.denominator:x}" for sum_ in state[4:])])

    def decode(self, data: bytes) -> Any:
        numbers = _decode(data)
        return [*numbers[:4], *(Fraction(*(int(part, 16) for part in text.split("/"))) for text in numbers[4:])]

    def type_of_result(self, types: Sequence[pa.DataType]) -> pa.DataType:
        return sum_type(types[1])

    def results(self, states: Sequence[Any], types: Sequence[pa.DataType]) -> pa.Array:
        kind = self.type_of_result(types)
        return pa.array([None if state[0] == 0 else self._result(state, types[1], kind) for state in states], kind)

    def result(self, state: Any) -> Any:
        """Not asked for: it depends on the type."""
        raise NotImplementedError

    def _result(self, state: Any, of: pa.DataType, kind: pa.DataType) -> Any:
        """Of at least one value; null where it has no room in its type, as of Spark's ``try_sum``."""
        total = state[4]
        if pa.types.is_decimal(kind):
            units = int(total * 10**kind.scale)
            return _decimal(units, kind.scale) if abs(units) < 10**kind.precision else None
        if pa.types.is_integer(kind):
            return int(total) if -(2**63) <= total < 2**63 else None
        return _double(state, total)


@dataclass(frozen=True)
class ExactMean(ExactSum):
    """The mean of the values that are not null."""

    def type_of_result(self, types: Sequence[pa.DataType]) -> pa.DataType:
        return pa.decimal256(76, min(types[1].scale + 4, 38)) if pa.types.is_decimal(types[1]) else pa.float64()

    def _result(self, state: Any, of: pa.DataType, kind: pa.DataType) -> Any:
        if pa.types.is_decimal(of):
            return decimal_mean(_decimal(int(state[4] * 10**of.scale), of.scale), state[0], of.scale)
        return _double(state, state[4] / state[0])


@dataclass(frozen=True)
class ExactVariance(ExactSum):
    """A variance or a standard deviation, from the sum of the squares less the square of the sum."""

    population: bool
    root: bool

    squared = True

    def type_of_result(self, types: Sequence[pa.DataType]) -> pa.DataType:
        return pa.float64()

    def _result(self, state: Any, of: pa.DataType, kind: pa.DataType) -> Any:
        n, nan, above, below, total, squares = state
        divisor = n if self.population else n - 1
        if divisor == 0:
            return None
        if nan or above or below:
            return math.nan
        variance = _double(state, (squares - total * total / n) / divisor)
        return math.sqrt(variance) if self.root else variance


def _double(state: Any, finite: Fraction) -> float:
    """The nearest double, or what NaN and the infinities make of it."""
    _, nan, above, below, *_ = state
    if nan or (above and below):
        return math.nan
    if above or below:
        return math.inf if above else -math.inf
    try:
        return float(finite)
    except OverflowError:
        return math.inf if finite > 0 else -math.inf


def _decimal(units: int, scale: int) -> Decimal:
    return Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))
