"""What is kept of an aggregate, by key: read from Arrow, merged with what was kept before, written to Arrow."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import Enum
from typing import Any, Final, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.aggregates.aggregator import Aggregator
from airflow_provider.streaming.json.row_codec import Column


class Function(Enum):
    """What is kept of a column."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    FIRST = "first"
    LAST = "last"
    STATE = "state"
    """What an `Aggregator` makes of it."""

    @property
    def adds(self) -> bool:
        """Whether values are added up, which have to be numbers."""
        return self in (Function.SUM, Function.MEAN)

    @property
    def by_order(self) -> bool:
        """Whether it depends on the order of the rows, so that parts cannot be put together."""
        return self in (Function.FIRST, Function.LAST)


class Kind(Enum):
    """How the value of an accumulator is kept."""

    INTEGER = "integer"
    DOUBLE = "double"
    DECIMAL = "decimal"
    """As the text of its digits: DECIMAL(38) has more than a number of 64 bits holds."""
    TEXT = "text"
    BYTES = "bytes"
    """The state of an `Aggregator`."""


_EXACT: Final = Context(prec=120)
"""No sum of decimals is longer."""
_DIVISION: Final = Context(prec=39, rounding=ROUND_HALF_UP)
_ROUNDING: Final = Context(prec=120, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, kw_only=True)
class Accumulator:
    """What is kept of one aggregate: a mean keeps two, a sum and a count.

    Args:
        function: how a batch's values are made one, and that one is merged with what was kept before.
        column: of what; None counts rows.
        where: the column that says which rows count; None for all.
        aggregator: what makes a state of rows; None where Arrow does.
        columns: of which columns it does.
    """

    function: Function
    column: str | None
    kind: Kind
    logical: pa.DataType
    ignorenulls: bool = False
    where: str | None = None
    aggregator: Aggregator | None = None
    columns: tuple[str, ...] = ()

    @property
    def input(self) -> str:
        """The name of its input, among those that are grouped."""
        where = "" if self.where is None else f" where {self.where}"
        if self.function is Function.COUNT:
            return f"{self.column}/any{where}"
        if self.kind is Kind.DECIMAL:
            return f"{self.column}/decimal for {self.function.value}{where}"
        return f"{self.column}/{self.kind.value}{where}"

    @property
    def of_all_rows(self) -> bool:
        """Whether each row counts, whatever it holds."""
        return self.column is None and self.where is None

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """What counts of its column, null where a row does not; of rows alone, true where one does."""
        if self.where is None:
            return rows.column(self.column)
        counts = rows.column(self.where)
        values = counts if self.column is None else rows.column(self.column)
        return pc.if_else(counts, values, pa.scalar(None, values.type))

    @property
    def greatest_double(self) -> bool:
        """Whether NaN, which Arrow ignores, has to be the greatest."""
        return self.function is Function.MAX and self.kind is Kind.DOUBLE


def kind_of(logical: pa.DataType) -> Kind | None:
    """How values of a type are kept; None for a type that is not."""
    if pa.types.is_floating(logical):
        return Kind.DOUBLE
    if pa.types.is_integer(logical) or pa.types.is_boolean(logical):
        return Kind.INTEGER
    if pa.types.is_timestamp(logical) or pa.types.is_date32(logical):
        return Kind.INTEGER
    if pa.types.is_string(logical) or pa.types.is_large_string(logical):
        return Kind.TEXT
    if pa.types.is_decimal(logical):
        return Kind.DECIMAL
    return None


def is_number(logical: pa.DataType) -> bool:
    """Whether values of a type can be added up."""
    return bool(pa.types.is_floating(logical) or pa.types.is_integer(logical) or pa.types.is_decimal(logical))


def sum_type(logical: pa.DataType) -> pa.DataType:
    """The type of a sum, as in Spark."""
    if pa.types.is_decimal(logical):
        return pa.decimal128(min(logical.precision + 10, 38), logical.scale)
    return pa.float64() if pa.types.is_floating(logical) else pa.int64()


def accumulators(
    function: Function, column: str | None, logical: pa.DataType, ignorenulls: bool, where: str | None = None
) -> tuple[Accumulator, ...] | None:
    """What is kept of an aggregate; None where values of the column's type cannot be."""
    count = Accumulator(function=Function.COUNT, column=column, kind=Kind.INTEGER, logical=pa.int64(), where=where)
    if function is Function.COUNT:
        return (count,)
    kind = kind_of(logical)
    if kind is None or (function.adds and not is_number(logical)):
        return None
    if function is not Function.MEAN:
        result = sum_type(logical) if function is Function.SUM else logical
        kept = Accumulator(function=function, column=column, kind=kind, logical=result, ignorenulls=ignorenulls)
        return (dataclasses.replace(kept, where=where),)
    # Spark's mean of integers adds doubles.
    kind, total = (kind, sum_type(logical)) if kind is Kind.DECIMAL else (Kind.DOUBLE, pa.float64())
    return Accumulator(function=Function.SUM, column=column, kind=kind, logical=total, where=where), count


def decimal_mean(total: Decimal, count: int, scale: int) -> Decimal:
    """The mean of decimals as Spark gives it: divided to 39 digits, then rounded half up.

    Where 38 digits do not hold it Spark raises; here it has more.

    Args:
        scale: of the column; the mean has four digits more.
    """
    mean, places = _DIVISION.divide(total, Decimal(count)), min(scale + 4, 38)
    if mean.adjusted() + 1 + places > 38:
        mean = _ROUNDING.divide(total, Decimal(count))
    return mean.quantize(Decimal(1).scaleb(-places), context=_ROUNDING)


def as_kind(column: pa.ChunkedArray, accumulator: Accumulator) -> pa.ChunkedArray:
    """An input column in the type in which the accumulator adds and compares."""
    if accumulator.kind is Kind.TEXT or accumulator.function is Function.COUNT:
        return column
    if accumulator.kind is Kind.DECIMAL:
        match accumulator.function:
            case Function.SUM:
                return column.cast(pa.decimal256(76, column.type.scale))  # no batch's sum is too great for it
            case Function.FIRST | Function.LAST:
                return column.cast(pa.string())  # Arrow finds the first of texts, not of decimals
            case _:
                return column
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    # Not every integer is a double; the nearest will do for a mean.
    return column.cast(pa.float64(), safe=False) if accumulator.kind is Kind.DOUBLE else column.cast(pa.int64())


def arrow_aggregation(accumulator: Accumulator) -> tuple[object, ...]:
    """What Arrow is asked to make of the input, by key."""
    function = accumulator.function
    if accumulator.of_all_rows:
        return ([], "count_all")
    if function.by_order:
        return (accumulator.input, function.value, pc.ScalarAggregateOptions(skip_nulls=accumulator.ignorenulls))
    return (accumulator.input, function.value)


def with_nan(result: pa.ChunkedArray, keys: pa.Array, table: pa.Table, accumulator: Accumulator) -> pa.ChunkedArray:
    """The greatest doubles by key, with NaN for the keys that have one."""
    is_nan = pc.is_nan(table.column(accumulator.input))
    if not pc.any(is_nan).as_py():
        return result
    rows = table.filter(is_nan)
    return pc.if_else(pc.is_in(keys, value_set=rows.column("__key").combine_chunks()), math.nan, result)


def to_column(array: pa.ChunkedArray, kind: Kind) -> Column:
    """Values of many keys as they are kept."""
    flat = array.combine_chunks()
    ok: npt.NDArray[np.bool_] = pc.is_valid(flat).to_numpy(zero_copy_only=False)
    if kind in (Kind.TEXT, Kind.DECIMAL):
        texts: list[bytes | None] = (
            flat.cast(pa.binary()).to_pylist() if kind is Kind.TEXT else [_digits(v) for v in flat.to_pylist()]
        )
        lengths = np.fromiter((len(t) if t else 0 for t in texts), np.int64, len(texts))
        return Column(ok, lengths, texts)
    target = pa.float64() if kind is Kind.DOUBLE else pa.int64()
    numbers = pc.fill_null(flat.cast(target), 0).to_numpy(zero_copy_only=False)
    return Column(ok, np.ascontiguousarray(numbers).view(np.int64))


def _digits(value: Decimal | str | None) -> bytes | None:
    return None if value is None else format(Decimal(value), "f").encode()


def decimal_of(text: bytes) -> Decimal:
    """The value of a kept decimal."""
    return Decimal(text.decode())


def to_array(column: Column, accumulator: Accumulator) -> pa.Array:
    """The inverse of `to_column`, in the type of the result."""
    if accumulator.kind is Kind.DECIMAL:
        texts = column.texts or ()
        return pa.array([None if text is None else decimal_of(text) for text in texts], accumulator.logical)
    if column.texts is not None:
        texts = pa.array(column.texts, pa.binary())
        return texts if accumulator.kind is Kind.BYTES else texts.cast(pa.string())
    if accumulator.kind is Kind.DOUBLE:
        # A FLOAT is written with its own digits, not with those of the double it is kept as.
        return pa.array(column.values.view(np.float64), mask=~column.ok).cast(accumulator.logical)
    integers = pa.array(column.values, mask=~column.ok)
    if pa.types.is_date32(accumulator.logical):
        return integers.cast(pa.int32()).cast(accumulator.logical)
    return integers if pa.types.is_integer(accumulator.logical) else integers.cast(accumulator.logical)


def merge(accumulator: Accumulator, existed: npt.NDArray[np.bool_], old: Column, new: Column) -> Column:
    """What is kept of many keys after a batch.

    Args:
        existed: by key, whether there was a state before, be it of nulls.
    """
    match accumulator.function:
        case Function.COUNT | Function.SUM:
            return _added(accumulator.kind, old, new)
        case Function.FIRST:
            return _picked(old.ok if accumulator.ignorenulls else existed, old, new)
        case Function.LAST:
            return _picked(~new.ok if accumulator.ignorenulls else np.zeros(len(new.ok), bool), old, new)
        case Function.MIN | Function.MAX:
            return _picked(_old_wins(accumulator, old, new), old, new)
        case Function.MEAN | Function.STATE:
            raise AssertionError("A mean keeps a sum and a count, and a state is folded by its aggregator.")
        case _:
            assert_never(accumulator.function)


def _added(kind: Kind, old: Column, new: Column) -> Column:
    if kind is Kind.DECIMAL:
        texts = [_decimal_sum(a, b) for a, b in zip(old.texts or (), new.texts or (), strict=True)]
        return Column(old.ok | new.ok, np.fromiter((len(t) if t else 0 for t in texts), np.int64, len(texts)), texts)
    as_type = np.float64 if kind is Kind.DOUBLE else np.int64
    # A null slot holds 0 in either type.
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, as in Spark
        total = np.where(old.ok, old.values, 0).view(as_type) + np.where(new.ok, new.values, 0).view(as_type)
    return Column(old.ok | new.ok, total.view(np.int64))


def exact_sum(total: Decimal | int, value: Decimal | int | None) -> Decimal | int:
    """Of two integers, or of two decimals with all their digits; a null adds nothing."""
    if value is None:
        return total
    return _EXACT.add(total, value) if isinstance(total, Decimal) else total + int(value)


def _decimal_sum(a: bytes | None, b: bytes | None) -> bytes | None:
    if a is None or b is None:
        return b if a is None else a
    return _digits(_EXACT.add(decimal_of(a), decimal_of(b)))


def _old_wins(accumulator: Accumulator, old: Column, new: Column) -> npt.NDArray[np.bool_]:
    wants_max = accumulator.function is Function.MAX
    if old.texts is not None and new.texts is not None:
        # UTF-8 orders as its code points do.
        worth: Callable[[bytes], Any] = decimal_of if accumulator.kind is Kind.DECIMAL else bytes
        pairs = zip(old.texts, new.texts, strict=True)
        return np.fromiter(
            (a is not None and (b is None or (worth(a) > worth(b)) is wants_max) for a, b in pairs),
            bool,
            len(old.texts),
        )
    if accumulator.kind is Kind.DOUBLE:
        a, b = old.values.view(np.float64), new.values.view(np.float64)
        # NaN is the greatest of all numbers, as in Spark.
        greater = (a > b) | (np.isnan(a) & ~np.isnan(b))
        less = (a < b) | (~np.isnan(a) & np.isnan(b))
        wins = greater if wants_max else less
    else:
        wins = old.values > new.values if wants_max else old.values < new.values
    return old.ok & (~new.ok | wins)


def _picked(take_old: npt.NDArray[np.bool_], old: Column, new: Column) -> Column:
    ok = np.where(take_old, old.ok, new.ok)
    values = np.where(take_old, old.values, new.values)
    if old.texts is None or new.texts is None:
        return Column(ok, values)
    texts = [a if use else b for use, a, b in zip(take_old.tolist(), old.texts, new.texts, strict=True)]
    return Column(ok, values, texts)
