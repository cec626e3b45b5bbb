"""The aggregators that are built in. Of one multiset of rows all of them come to one result, whatever their order.

That is so up to the last digits of `Moments`, whose doubles are rounded as they are added, and up to the error of
`Quantiles`. A state is one MessagePack value of what its class says, of `plain_values` where it holds values.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa

from airflow_provider.streaming.aggregates.aggregator import Aggregator, NoRoomError, Taken
from airflow_provider.streaming.aggregates.plain_values import Plain, PlainValues

if TYPE_CHECKING:
    from datasketches import hll_sketch

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode

Gives = Literal["value", "values", "count", "double"]


@dataclass(frozen=True)
class BuiltIn(Aggregator):
    """One of them."""

    function: str

    taken: ClassVar[tuple[Taken, ...]] = ("ordered",)
    needed: ClassVar[slice] = slice(None)
    """In which columns a null leaves the row out."""
    gives: ClassVar[Gives]
    """What `result` is: a value of the first column, several, or a number."""

    @property
    def name(self) -> str:
        return self.function

    def read(self, columns: Sequence[pa.ChunkedArray]) -> list[tuple[Any, ...] | None]:
        rows = zip(*map(self._values, columns), strict=True)
        return [None if None in row[self.needed] else row for row in rows]

    def _values(self, column: pa.ChunkedArray) -> list[Any]:
        if self.taken != ("number",):
            return list[Any](PlainValues(column.type).read(column))
        # Not every integer is a double; the nearest will do, as in Spark.
        doubles: list[Any] = column.cast(pa.float64(), safe=False).to_pylist()
        return doubles

    def zero(self) -> Any:
        return []

    def encode(self, state: Any) -> bytes:
        return _encode(state)

    def decode(self, data: bytes) -> Any:
        return _decode(data)

    def type_of_result(self, types: Sequence[pa.DataType]) -> pa.DataType:
        of_values = {"value": types[0], "values": pa.list_(types[0]), "count": pa.int64(), "double": pa.float64()}
        return of_values[self.gives]

    def results(self, states: Sequence[Any], types: Sequence[pa.DataType]) -> pa.Array:
        found = [self.result(state) for state in states]
        if self.gives == "value":
            return PlainValues(types[0]).array(found)
        if self.gives == "values":
            ends = np.cumsum([0, *map(len, found)])
            values = PlainValues(types[0]).array([value for values in found for value in values])
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)
        return pa.array(found, self.type_of_result(types))


@dataclass(frozen=True)
class Top(BuiltIn):
    """The values of the rows that are the greatest by another column, the greatest first.

    Of rows that are equal there the greater value comes first, and null last. A row with null there is left out. It
    keeps of each row by what it is ranked, whether it has a value, and that or 0: in ascending order.
    """

    n: int
    ignorenulls: bool = False

    needed = slice(-1, None)
    gives: ClassVar[Gives] = "values"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(self.n),)

    def add(self, state: Any, *values: Any) -> Any:
        value, by = values[0], values[-1]
        if value is None and self.ignorenulls:
            return state
        return self.merge(state, [(by, value is not None, 0 if value is None else value)])

    def merge(self, state: Any, other: Any) -> Any:
        return list(heapq.merge(state, other))[-self.n :]

    def decode(self, data: bytes) -> Any:
        return [tuple(row) for row in _decode(data)]

    def result(self, state: Any) -> Any:
        return [value if there else None for _, there, value in reversed(state)]


@dataclass(frozen=True)
class Pick(Top):
    """The value of the row that is the greatest or the least by another column.

    Of rows that are equal there: of the greatest the greatest value, of the least the least; null where there is no
    other. It keeps the row as `Top` does.
    """

    n: int = 1
    greatest: bool = True

    gives: ClassVar[Gives] = "value"

    @property
    def parameters(self) -> tuple[str, ...]:
        return ("ignorenulls=True",) if self.ignorenulls else ()

    def merge(self, state: Any, other: Any) -> Any:
        if not state or not other:
            return state or other
        if self.greatest:
            return max(state, other)
        return min(state, other, key=lambda rows: (rows[0][0], not rows[0][1], rows[0][2]))

    def result(self, state: Any) -> Any:
        return super().result(state)[0] if state else None


@dataclass(frozen=True)
class PickInOrder(BuiltIn):
    """The value of the first or the last row of those that count, by offset: it in an array, or [] before it came."""

    last: bool
    ignorenulls: bool

    needed = slice(0)
    gives: ClassVar[Gives] = "value"

    @property
    def parameters(self) -> tuple[str, ...]:
        return ("ignorenulls=True",) if self.ignorenulls else ()

    def add(self, state: Any, *values: Any) -> Any:
        stays = (self.ignorenulls and values[0] is None) or (state and not self.last)
        return state if stays else list(values)

    def result(self, state: Any) -> Any:
        return state[0] if state else None


@dataclass(frozen=True)
class CollectList(BuiltIn):
    """All values, each as often as it came, in ascending order.

    Args:
        limit: how many it keeps of a key; no part of what the state means.
    """

    limit: int

    gives: ClassVar[Gives] = "values"

    def add(self, state: Any, *values: Any) -> Any:
        self._check(len(state) + 1)
        bisect.insort(state, values[0])
        return state

    def merge(self, state: Any, other: Any) -> Any:
        self._check(len(state) + len(other))
        return list(heapq.merge(state, other))

    def result(self, state: Any) -> Any:
        return state

    def _check(self, size: int) -> None:
        if size > self.limit:
            instead = ", or take approx_count_distinct()" if self.gives == "count" else ""
            raise NoRoomError(
                f"{self.name}() has no room for more than {self.limit:,} values of a key: correct the record, or give "
                f"it a greater limit={instead}"
            )


@dataclass(frozen=True)
class CollectSet(CollectList):
    """All values, each once; kept in ascending order."""

    def zero(self) -> Any:
        return set()

    def add(self, state: Any, *values: Any) -> Any:
        return self.merge(state, {values[0] if len(values) == 1 else values})

    def merge(self, state: Any, other: Any) -> Any:
        new = other - state
        self._check(len(state) + len(new))
        state |= new
        return state

    def encode(self, state: Any) -> bytes:
        return _encode(sorted(state))

    def decode(self, data: bytes) -> Any:
        return {tuple(value) if isinstance(value, list) else value for value in _decode(data)}

    def result(self, state: Any) -> Any:
        return sorted(state)


@dataclass(frozen=True)
class CountDistinct(CollectSet):
    """How many values there are, or how many of several columns together; they are kept as by `CollectSet`."""

    gives: ClassVar[Gives] = "count"

    def result(self, state: Any) -> Any:
        return len(state)


@dataclass(frozen=True)
class Moments(BuiltIn):
    """A variance or a standard deviation: how many values, their mean, and the sum of squares of what they are off it.

    Two states become one as in Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
    Sample Variances" (1979); a row is a state of one value, as in Spark's `CentralMomentAgg`.
    """

    population: bool
    root: bool

    taken = ("number",)
    gives: ClassVar[Gives] = "double"

    def zero(self) -> Any:
        return 0, 0.0, 0.0

    def add(self, state: Any, *values: Any) -> Any:
        n, mean, squares = state
        delta = values[0] - mean
        part = delta / (n + 1)
        return n + 1, mean + part, squares + delta * (delta - part)

    def merge(self, state: Any, other: Any) -> Any:
        (n, mean, squares), (m, other_mean, other_squares) = state, other
        if not n or not m:
            return state if n else other
        delta, total = other_mean - mean, n + m
        return total, mean + delta * m / total, squares + other_squares + delta * delta * n * m / total

    def result(self, state: Any) -> Any:
        n, _, squares = state
        divisor = n if self.population else n - 1
        if divisor <= 0:
            return None
        return math.sqrt(squares / divisor) if self.root else squares / divisor


@dataclass(frozen=True)
class ApproxCountDistinct(BuiltIn):
    """About how many values there are: a HyperLogLog sketch of Apache DataSketches, whose hash has one seed.

    Args:
        lg_k: the logarithm of its number of registers.
    """

    lg_k: int

    gives: ClassVar[Gives] = "count"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (f"lg_k={self.lg_k}",)

    def zero(self) -> hll_sketch:
        from datasketches import hll_sketch

        return hll_sketch(self.lg_k)

    def add(self, state: hll_sketch, *values: Any) -> hll_sketch:
        value: Plain = values[0]
        state.update(f"_{value.decode()}" if isinstance(value, bytes) else value)  # it would not take an empty text
        return state

    def merge(self, state: hll_sketch, other: hll_sketch) -> hll_sketch:
        from datasketches import hll_union

        union = hll_union(self.lg_k)
        union.update(state)
        union.update(other)
        return union.get_result()

    def encode(self, state: hll_sketch) -> bytes:
        return bytes(state.serialize_compact())

    def decode(self, data: bytes) -> hll_sketch:
        from datasketches import hll_sketch

        return hll_sketch.deserialize(data)

    def result(self, state: hll_sketch) -> int:
        # By the registers alone: what a sketch estimates that was never merged depends on the order of its values.
        estimate: float = self.merge(state, state).get_estimate()
        return round(estimate)


_PENDING: Final = 256
"""How many values wait, so that the sketch takes them in the same lots wherever micro-batches end."""
_DIGEST_K: Final = 400
"""Of random values the rank of what it found was off by 0.008 at the most, with 200 by 0.016."""


@dataclass(frozen=True)
class Quantiles(BuiltIn):
    """About the values below which given shares lie: a t-digest of Apache DataSketches, and values that wait for it.

    Its KLL sketch draws random bits, so that two replays would come to different bytes; a t-digest draws none. NaN and
    infinities are left out.

    Args:
        shares: from 0 to 1.
        many: whether the result is an array.
    """

    shares: tuple[float, ...]
    many: bool

    taken = ("number",)
    gives: ClassVar[Gives] = "double"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(list(self.shares) if self.many else self.shares[0]),)

    def _values(self, column: pa.ChunkedArray) -> list[Any]:
        return [value if value is not None and math.isfinite(value) else None for value in super()._values(column)]

    def zero(self) -> Any:
        from datasketches import tdigest_double

        return tdigest_double(_DIGEST_K), list[float]()

    def add(self, state: Any, *values: Any) -> Any:
        digest, pending = state
        pending.append(values[0])
        if len(pending) < _PENDING:
            return state
        digest.update(np.array(pending))
        digest.compress()
        return digest, []

    def merge(self, state: Any, other: Any) -> Any:
        state[0].merge(other[0])
        state[0].compress()
        for value in other[1]:
            state = self.add(state, value)
        return state

    def encode(self, state: Any) -> bytes:
        digest, pending = state
        return _encode((b"" if digest.is_empty() else digest.serialize(), pending))

    def decode(self, data: bytes) -> Any:
        from datasketches import tdigest_double

        digest, pending = _decode(data)
        return tdigest_double.deserialize(digest) if digest else tdigest_double(_DIGEST_K), pending

    def result(self, state: Any) -> Any:
        digest, pending = self.decode(self.encode(state))
        if pending:
            digest.update(np.array(pending))
        if digest.is_empty():
            return None
        found = [digest.get_quantile(share) for share in self.shares]
        return found if self.many else found[0]

    def type_of_result(self, types: Sequence[pa.DataType]) -> pa.DataType:
        return pa.list_(pa.float64()) if self.many else pa.float64()
