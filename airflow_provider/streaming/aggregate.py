"""Aggregations by key, computed over a batch's distinct keys at once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.json_rows import json_rows
from airflow_provider.streaming.operation import Changes
from airflow_provider.streaming.row import Column, RowCodec

__all__ = ["Aggregate", "Aggregation", "Function", "GroupedAggregation"]


class Function(Enum):
    """What is kept of a column."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Aggregate:
    """One result column.

    Args:
        name: of the result.
        function: what is computed.
        column: of what; None counts rows.
        ignorenulls: for first and last: pass over nulls, as in Spark. Default False.
    """

    name: str
    function: Function
    column: str | None = None
    ignorenulls: bool = False

    def alias(self, name: str) -> Aggregate:
        """The same under another name."""
        return dataclasses.replace(self, name=name)


class _Kind(Enum):
    INTEGER = "integer"
    DOUBLE = "double"
    TEXT = "text"


@dataclass(frozen=True)
class _Accumulator:
    """What is kept of one aggregate: a mean keeps two, a sum and a count."""

    function: Function
    column: str | None
    kind: _Kind
    logical: pa.DataType
    ignorenulls: bool = False

    @property
    def input(self) -> str:
        """The name of its input, among those that are grouped."""
        return f"{self.column}/{'any' if self.function is Function.COUNT else self.kind.value}"

    @property
    def greatest_double(self) -> bool:
        """Whether NaN, which Arrow passes over, has to be the greatest."""
        return self.function is Function.MAX and self.kind is _Kind.DOUBLE


@dataclass(frozen=True)
class Aggregation:
    """An operation that keeps aggregates by key and emits them, once a key and batch, as a JSON object.

    The state of a key is a row of accumulators (`airflow_provider.streaming.row`). Integers are 64-bit, floats are
    doubles; texts, booleans, dates and timestamps are kept by count, min, max, first and last.

    Args:
        aggregates: the results, in order.
    """

    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        """Refuse an operation without results, or with two of one name."""
        names = [a.name for a in self.aggregates]
        if not names or len(set(names)) != len(names):
            raise ConfigurationError(
                f"aggregate() got the names {names}: it needs at least one, each another. Name them with alias()."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads."""
        return tuple(dict.fromkeys(a.column for a in self.aggregates if a.column is not None))

    def group(self, key_name: str, rows: pa.Table) -> GroupedAggregation:
        """See `Operation.group`."""
        accumulators = self._accumulators(rows.schema)
        # One column may be read as several kinds: its mean adds doubles, its sum integers.
        inputs = {a.input: _as_kind(rows.column(a.column), a) for a in accumulators if a.column is not None}
        table = pa.table({"__key": rows.column("__key"), **inputs})
        grouped = table.group_by("__key", use_threads=False).aggregate([_arrow_aggregation(a) for a in accumulators])
        keys = grouped.column(grouped.schema.get_field_index("__key")).combine_chunks()
        # Arrow appends the results in the order they were asked for; a name may stand there twice.
        offset = 1 if grouped.schema.names[0] == "__key" else 0
        results = [grouped.column(i + offset) for i in range(len(accumulators))]
        new = [
            _to_column(_with_nan(result, keys, table, a) if a.greatest_double else result, a.kind)
            for result, a in zip(results, accumulators, strict=True)
        ]
        return GroupedAggregation(self, key_name, keys, accumulators, new)

    def _accumulators(self, schema: pa.Schema) -> tuple[_Accumulator, ...]:
        result: list[_Accumulator] = []
        for aggregate in self.aggregates:
            column, function = aggregate.column, aggregate.function
            logical = pa.int64() if column is None else schema.field(column).type
            kind = _kind(logical)
            if function is Function.COUNT:
                result.append(_Accumulator(function, column, _Kind.INTEGER, pa.int64()))
                continue
            if kind is None or (
                function in (Function.SUM, Function.MEAN) and (kind is _Kind.TEXT or not _is_number(logical))
            ):
                raise ConfigurationError(
                    f"{aggregate.name!r} cannot be kept: {function.value} of column {column!r} of type {logical}. "
                    "Cast the column to a number, or to STRING for count, min, max, first and last."
                )
            if function is Function.MEAN:
                result.append(_Accumulator(Function.SUM, column, _Kind.DOUBLE, pa.float64()))
                result.append(_Accumulator(Function.COUNT, column, _Kind.INTEGER, pa.int64()))
            else:
                result.append(_Accumulator(function, column, kind, logical, aggregate.ignorenulls))
        return tuple(result)


class GroupedAggregation:
    """See `GroupedRows`."""

    def __init__(
        self,
        operation: Aggregation,
        key_name: str,
        keys: pa.Array,
        accumulators: tuple[_Accumulator, ...],
        new: list[Column],
    ) -> None:
        self._operation, self._key_name, self._keys = operation, key_name, keys
        self._accumulators, self._new = accumulators, new
        self._codec = RowCodec(tuple(a.kind is _Kind.TEXT for a in accumulators))
        self.keys: list[bytes] = keys.to_pylist()

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """See `GroupedRows.apply`."""
        existed = np.fromiter((row is not None for row in old), bool, len(old))
        merged = [
            _merge(accumulator, existed, before, now)
            for accumulator, before, now in zip(self._accumulators, self._codec.decode(old), self._new, strict=True)
        ]
        state = list(zip(self.keys, self._codec.encode(merged), strict=True))
        return Changes(state, list(zip(self.keys, self._results(merged), strict=True)))

    def _results(self, merged: list[Column]) -> list[bytes]:
        fields: list[tuple[str, pa.Array]] = [(self._key_name, self._keys.cast(pa.string()))]
        left = iter(zip(self._accumulators, merged, strict=True))
        for aggregate in self._operation.aggregates:
            accumulator, column = next(left)
            if aggregate.function is Function.MEAN:
                _, counted = next(left)
                # 0 / 0 stays null: `ok` says that there was no value.
                total = column.values.view(np.float64)
                values = total / np.where(column.ok, counted.values, 1)
                fields.append((aggregate.name, pa.array(values, mask=~column.ok)))
            else:
                fields.append((aggregate.name, _to_array(column, accumulator)))
        return json_rows(fields)


def _kind(logical: pa.DataType) -> _Kind | None:
    if pa.types.is_floating(logical):
        return _Kind.DOUBLE
    if pa.types.is_integer(logical) or pa.types.is_boolean(logical):
        return _Kind.INTEGER
    if pa.types.is_timestamp(logical) or pa.types.is_date32(logical):
        return _Kind.INTEGER
    if pa.types.is_string(logical) or pa.types.is_large_string(logical):
        return _Kind.TEXT
    return None


def _is_number(logical: pa.DataType) -> bool:
    return bool(pa.types.is_floating(logical) or pa.types.is_integer(logical))


def _as_kind(column: pa.ChunkedArray, accumulator: _Accumulator) -> pa.ChunkedArray:
    if accumulator.kind is _Kind.TEXT or accumulator.function is Function.COUNT:
        return column
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    # Not every integer is a double; the nearest will do for a mean.
    return column.cast(pa.float64(), safe=False) if accumulator.kind is _Kind.DOUBLE else column.cast(pa.int64())


def _arrow_aggregation(accumulator: _Accumulator) -> tuple[object, ...]:
    function = accumulator.function
    if accumulator.column is None:
        return ([], "count_all")
    if function in (Function.FIRST, Function.LAST):
        return (accumulator.input, function.value, pc.ScalarAggregateOptions(skip_nulls=accumulator.ignorenulls))
    return (accumulator.input, function.value)


def _with_nan(result: pa.ChunkedArray, keys: pa.Array, table: pa.Table, accumulator: _Accumulator) -> pa.ChunkedArray:
    """The greatest doubles by key, with NaN for the keys that have one."""
    is_nan = pc.is_nan(table.column(accumulator.input))
    if not pc.any(is_nan).as_py():
        return result
    rows = table.filter(is_nan)
    return pc.if_else(pc.is_in(keys, value_set=rows.column("__key").combine_chunks()), math.nan, result)


def _to_column(array: pa.ChunkedArray, kind: _Kind) -> Column:
    flat = array.combine_chunks()
    ok: npt.NDArray[np.bool_] = pc.is_valid(flat).to_numpy(zero_copy_only=False)
    if kind is _Kind.TEXT:
        texts: list[bytes | None] = flat.cast(pa.binary()).to_pylist()
        lengths = np.fromiter((len(t) if t else 0 for t in texts), np.int64, len(texts))
        return Column(ok, lengths, texts)
    target = pa.float64() if kind is _Kind.DOUBLE else pa.int64()
    numbers = pc.fill_null(flat.cast(target), 0).to_numpy(zero_copy_only=False)
    return Column(ok, np.ascontiguousarray(numbers).view(np.int64))


def _to_array(column: Column, accumulator: _Accumulator) -> pa.Array:
    if column.texts is not None:
        return pa.array(column.texts, pa.binary()).cast(pa.string())
    if accumulator.kind is _Kind.DOUBLE:
        return pa.array(column.values.view(np.float64), mask=~column.ok)
    integers = pa.array(column.values, mask=~column.ok)
    if pa.types.is_date32(accumulator.logical):
        return integers.cast(pa.int32()).cast(accumulator.logical)
    return integers if pa.types.is_integer(accumulator.logical) else integers.cast(accumulator.logical)


def _merge(accumulator: _Accumulator, existed: npt.NDArray[np.bool_], old: Column, new: Column) -> Column:
    match accumulator.function:
        case Function.COUNT | Function.SUM:
            return _added(accumulator.kind, old, new)
        case Function.FIRST:
            return _picked(old.ok if accumulator.ignorenulls else existed, old, new)
        case Function.LAST:
            return _picked(~new.ok if accumulator.ignorenulls else np.zeros(len(new.ok), bool), old, new)
        case _:
            return _picked(_old_wins(accumulator, old, new), old, new)


def _added(kind: _Kind, old: Column, new: Column) -> Column:
    as_type = np.float64 if kind is _Kind.DOUBLE else np.int64
    # A null slot holds 0 in either type.
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, as in Spark
        total = np.where(old.ok, old.values, 0).view(as_type) + np.where(new.ok, new.values, 0).view(as_type)
    return Column(old.ok | new.ok, total.view(np.int64))


def _old_wins(accumulator: _Accumulator, old: Column, new: Column) -> npt.NDArray[np.bool_]:
    wants_max = accumulator.function is Function.MAX
    if old.texts is not None and new.texts is not None:
        # UTF-8 orders as its code points do.
        return np.fromiter(
            (a is not None and (b is None or (a > b) is wants_max) for a, b in zip(old.texts, new.texts, strict=True)),
            bool,
            len(old.texts),
        )
    if accumulator.kind is _Kind.DOUBLE:
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
