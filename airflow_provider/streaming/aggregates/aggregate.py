"""Aggregations by key, computed over a batch's distinct keys at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import KeptAggregate, StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import (
    Accumulator,
    Function,
    Kind,
    accumulators,
    arrow_aggregation,
    as_kind,
    decimal_mean,
    decimal_of,
    merge,
    to_array,
    to_column,
    with_nan,
)
from airflow_provider.streaming.aggregates.accumulator_rows import PartialRows, StateRows
from airflow_provider.streaming.aggregates.sum_bound import SumBound, has_bound, overflows
from airflow_provider.streaming.json.json_rows import json_rows, key_columns, python_values
from airflow_provider.streaming.json.row_codec import Column
from airflow_provider.streaming.json.types import json_schema, type_name
from airflow_provider.streaming.operations.batch import Changes, FunctionError, StateReader, without_failed
from airflow_provider.streaming.operations.operation import Batch, Operation


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """One result column.

    Args:
        column: of what; None counts rows.
        ignorenulls: for first and last: ignore nulls, as in Spark. Default False.
    """

    name: str
    function: Function
    column: str | None = None
    ignorenulls: bool = False

    def alias(self, name: str) -> Aggregate:
        """The same under another name."""
        return dataclasses.replace(self, name=name)


def aggregates_text(aggregates: Sequence[Aggregate]) -> str:
    """Such as ``count() AS orders``."""
    return ", ".join(f"{a.function.value}({a.column or ''}) AS {a.name}" for a in aggregates)


@dataclass(frozen=True)
class Aggregation(Operation):
    """An operation that keeps aggregates by key and emits them, once per key and batch, as a JSON object.

    The state of a key is a row of accumulators (`json.row_codec`). Integers are 64-bit, floats are
    doubles, decimals exact; texts, booleans, dates and timestamps are kept by count, min, max, first and last. A record
    whose value has no room in a sum is an error of that record.

    Args:
        aggregates: the results, in order.
        stored: the signature of a store that holds what was written before; None for a store that begins empty.
        by: the columns of a key of several, for the output; empty for one.
    """

    aggregates: tuple[Aggregate, ...]
    stored: StoreSignature | None = None
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an operation without results, or with two of one name."""
        names = [a.name for a in self.aggregates]
        if not names or len(set(names)) != len(names):
            raise ConfigurationError(
                f"aggregate() got the names {names}: it needs at least one, and no two alike. Name them with alias()."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads."""
        return tuple(dict.fromkeys(a.column for a in self.aggregates if a.column is not None))

    def writes(self, key_name: str, schema: pa.Schema) -> str:
        """See `Operation.writes`: the key as text, and the results."""
        results = [(name, column.type) for name, column in self.results([], schema)]
        keys = [(name, pa.string()) for name in self.written_keys(key_name)]
        return json_schema(pa.schema([*keys, *self._between_keys_and_results, *results]))

    def written_keys(self, key_name: str) -> tuple[str, ...]:
        """See `Operation.written_keys`."""
        return self.by or (key_name,)

    @property
    def _between_keys_and_results(self) -> Sequence[tuple[str, pa.DataType]]:
        return ()

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`."""
        kept = self._kept(schema)
        return StoreSignature(
            key=key_name,
            key_type=type_name(key_type),
            operation="aggregate",
            aggregates=kept,
            layouts=(tuple(range(len(kept))),),
            layout=1,
        )

    def going_on(self, signature: StoreSignature) -> Aggregation:
        """See `Operation.going_on`: aggregates are found again by their names."""
        return dataclasses.replace(self, stored=signature)

    def _kept(self, schema: pa.Schema | None) -> tuple[KeptAggregate, ...]:
        """The aggregates; without types while those of their columns are not known."""
        kept = []
        for aggregate in self.aggregates:
            of_it = () if schema is None else self._accumulators_of(aggregate, schema)
            kept.append(
                KeptAggregate(
                    name=aggregate.name,
                    function=aggregate.function.value,
                    column=aggregate.column,
                    type=type_name(of_it[0].logical) if of_it else "",
                    kinds=tuple(accumulator.kind.value for accumulator in of_it),
                    ignorenulls=aggregate.ignorenulls,
                )
            )
        return tuple(kept)

    def state_rows(self, schema: pa.Schema) -> StateRows:
        """How its state lies in the store."""
        kept = self._kept(schema)
        return StateRows.fresh(kept) if self.stored is None else StateRows.of(self.stored, kept)

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`."""
        grouped = self.grouped(batch)
        return grouped.apply(state.get_many(grouped.keys), tolerant)

    def grouped(self, batch: Batch) -> GroupedAggregation:
        """A batch's rows, by ``__key``."""
        schema = batch.rows.schema
        kept = self._accumulators(schema)
        return self._grouped(batch.key_name, batch.rows, schema, kept, kept)

    def grouped_parts(self, batch: Batch, schema: pa.Schema, parts: tuple[Accumulator, ...]) -> GroupedAggregation:
        """The same of rows that are aggregates of parts themselves.

        Args:
            batch: with a column for each accumulator instead of `columns`.
            schema: of the rows that were aggregated in parts.
            parts: by accumulator, how the values of its column are made one.
        """
        return self._grouped(batch.key_name, batch.rows, schema, self._accumulators(schema), parts)

    def partial_rows(self, schema: pa.Schema) -> PartialRows:
        """How its accumulators go to another stage."""
        return PartialRows(self._kept(schema), self._accumulators(schema))

    def _grouped(
        self,
        key_name: str,
        rows: pa.Table,
        schema: pa.Schema,
        kept: tuple[Accumulator, ...],
        accumulators: tuple[Accumulator, ...],
    ) -> GroupedAggregation:
        """Group rows.

        Args:
            schema: of the rows that the aggregates are of.
            accumulators: how each is made of the rows.
        """
        # One column may be read as several kinds: its mean adds doubles, its sum integers.
        inputs = {a.input: as_kind(rows.column(a.column), a) for a in accumulators if a.column is not None}
        pairs = enumerate(zip(kept, accumulators, strict=True))
        bounds = tuple(SumBound.of(at, a, inputs[a.input]) for at, (of, a) in pairs if has_bound(of))
        table = pa.table({"__key": rows.column("__key"), **inputs})
        grouped = table.group_by("__key", use_threads=False).aggregate([arrow_aggregation(a) for a in accumulators])
        # In the order of the store's keys: its reads and its memtable's inserts go through the blocks once.
        key_at = grouped.schema.get_field_index("__key")
        grouped = grouped.take(pc.sort_indices(grouped.column(key_at)))
        keys = grouped.column(key_at).combine_chunks()
        # Arrow appends the results in the order they were asked for; a name may stand there twice.
        offset = 1 if grouped.schema.names[0] == "__key" else 0
        results = [grouped.column(i + offset) for i in range(len(accumulators))]
        new = [
            to_column(with_nan(result, keys, table, a) if a.greatest_double else result, a.kind)
            for result, a in zip(results, accumulators, strict=True)
        ]
        again = partial(self._grouped, key_name, schema=schema, kept=kept, accumulators=accumulators)
        return GroupedAggregation(self, key_name, keys, kept, new, schema, rows, bounds, again)

    @property
    def text(self) -> str:
        """See `Operation.text`."""
        return f"aggregate {aggregates_text(self.aggregates)}"

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the results by name, with the types that rows have in Python."""
        results = self.results(states, schema)
        rows = zip(*(python_values(column) for _, column in results), strict=True)
        return [dict(zip((name for name, _ in results), row, strict=True)) for row in rows]

    def results(self, states: Sequence[bytes], schema: pa.Schema) -> list[tuple[str, pa.Array]]:
        """The results of stored values by name, as columns."""
        columns = [column for _, column in self.state_rows(schema).decode(states)]
        return _results(self.aggregates, self._accumulators(schema), columns)

    def output(
        self, key_name: str, keys: Sequence[bytes], column: pa.Array, results: list[tuple[str, pa.Array]]
    ) -> list[tuple[bytes, bytes]]:
        """What a batch emits: pairs of key and value for the sink."""
        return list(zip(keys, json_rows([*key_columns(key_name, self.by, column), *results]), strict=True))

    def _accumulators(self, schema: pa.Schema) -> tuple[Accumulator, ...]:
        return tuple(one for aggregate in self.aggregates for one in self._accumulators_of(aggregate, schema))

    @staticmethod
    def _accumulators_of(aggregate: Aggregate, schema: pa.Schema) -> tuple[Accumulator, ...]:
        column, function = aggregate.column, aggregate.function
        logical = pa.int64() if column is None else schema.field(column).type
        kept = accumulators(function, column, logical, aggregate.ignorenulls)
        if kept is None:
            raise ConfigurationError(
                f"{aggregate.name!r} cannot be kept: {function.value} of column {column!r} of type {logical}. "
                "Cast the column to a number, or to STRING for count, min, max, first and last."
            )
        return kept


class GroupedAggregation:
    """Rows by key, waiting for the keys' state.

    Its `keys` are distinct, in the order of their bytes.
    """

    def __init__(
        self,
        operation: Aggregation,
        key_name: str,
        keys: pa.Array,
        accumulators: tuple[Accumulator, ...],
        new: list[Column],
        schema: pa.Schema,
        rows: pa.Table,
        bounds: tuple[SumBound, ...],
        again: Callable[[pa.Table], GroupedAggregation],
    ) -> None:
        self._operation = operation
        self._key_name = key_name
        self._keys = keys
        self._accumulators = accumulators
        self._new = new
        self._schema = schema
        self._rows_in, self._bounds, self._again = rows, bounds, again
        self.keys: list[bytes] = keys.to_pylist()

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """New state and output.

        Args:
            old: the keys' state, in the order of `keys`; None where there is none.

        Raises:
            FunctionError: a row has no room, and `tolerant` is false.
        """
        rows, results, failed = self.merged([old])
        if failed:
            if not tolerant:
                raise failed[0]
            of_key = dict(zip(self.keys, old, strict=True))

            def again(left: pa.Table) -> Changes:
                grouped = self._again(left)
                return grouped.apply([of_key[key] for key in grouped.keys], tolerant=True)

            # A row that counts in several windows may have made room in one of them for what now has none.
            return without_failed(self._rows_in, failed, again)
        state = list(zip(self.keys, rows, strict=True))
        return Changes(state, self._operation.output(self._key_name, self.keys, self._keys, results))

    def merged(
        self, olds: Sequence[Sequence[bytes | None]]
    ) -> tuple[list[bytes], list[tuple[str, pa.Array]], list[FunctionError]]:
        """The keys' new state and results, and the rows that have no room in it: then the two are empty.

        Args:
            olds: the keys' state, as in `apply`; more than one where states become one. They must keep no first and
                last then: which row came first is not kept.
        """
        state_rows = self._operation.state_rows(self._schema)
        stored, *others = (state_rows.decode(old) for old in olds)
        for other in others:
            stored = [
                (existed | more, merge(accumulator, more, after, before))
                for accumulator, (existed, before), (more, after) in zip(self._accumulators, stored, other, strict=True)
            ]
        if self._bounds:
            kept = [column for _, column in stored]
            if failed := overflows(self._bounds, self.keys, self._rows_in, kept):
                return [], [], failed
        merged = [
            merge(accumulator, existed, before, now)
            for accumulator, (existed, before), now in zip(self._accumulators, stored, self._new, strict=True)
        ]
        results = _results(self._operation.aggregates, self._accumulators, merged)
        return state_rows.encode(merged), results, []

    def partial(self, tolerant: bool = False) -> Changes:
        """What the batch alone comes to, as output for the stage that merges it (`aggregates.accumulator_rows`)."""
        if self._bounds:
            none = [column for _, column in self._operation.state_rows(self._schema).decode([None] * len(self.keys))]
            if failed := overflows(self._bounds, self.keys, self._rows_in, none):
                if not tolerant:
                    raise failed[0]
                return without_failed(self._rows_in, failed, lambda left: self._again(left).partial(tolerant=True))
        values = self._operation.partial_rows(self._schema).encode(self._new)
        return Changes([], list(zip(self.keys, values, strict=True)))


def _results(
    aggregates: Sequence[Aggregate], accumulators: Sequence[Accumulator], columns: Sequence[Column]
) -> list[tuple[str, pa.Array]]:
    fields: list[tuple[str, pa.Array]] = []
    left = iter(zip(accumulators, columns, strict=True))
    for aggregate in aggregates:
        accumulator, column = next(left)
        if aggregate.function is Function.MEAN:
            _, counted = next(left)
            if accumulator.kind is Kind.DECIMAL:
                fields.append((aggregate.name, _decimal_means(column, counted, accumulator.logical.scale)))
                continue
            # 0 / 0 stays null: `ok` says that there was no value.
            total = column.values.view(np.float64)
            values = total / np.where(column.ok, counted.values, 1)
            fields.append((aggregate.name, pa.array(values, mask=~column.ok)))
        else:
            fields.append((aggregate.name, to_array(column, accumulator)))
    return fields


def _decimal_means(total: Column, counted: Column, scale: int) -> pa.Array:
    means = [
        None if text is None else decimal_mean(decimal_of(text), count, scale)
        for text, count in zip(total.texts or (), counted.values.tolist(), strict=True)
    ]
    return pa.array(means, pa.decimal256(76, min(scale + 4, 38)))
