"""Aggregations by key, computed over a batch's distinct keys at once."""

from __future__ import annotations

import dataclasses
import zlib
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
    is_number,
    kind_of,
    merge,
    to_array,
    to_column,
    with_nan,
)
from airflow_provider.streaming.aggregates.accumulator_rows import PartialRows, StateRows
from airflow_provider.streaming.aggregates.aggregator import ADVICE, Aggregator, needed_of, suits
from airflow_provider.streaming.aggregates.state_fold import (
    Failed,
    NoResultError,
    StateFold,
    merged_states,
    places_by_key,
    results_of,
)
from airflow_provider.streaming.aggregates.sum_bound import SumBound, has_bound, overflows
from airflow_provider.streaming.json.json_rows import json_rows, key_columns, python_values
from airflow_provider.streaming.json.row_codec import Bools, Column
from airflow_provider.streaming.json.types import json_schema, type_name
from airflow_provider.streaming.operations.batch import Changes, FunctionError, StateReader, without_failed
from airflow_provider.streaming.operations.operation import Batch, Operation


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """One result column.

    Args:
        column: of what; None counts rows.
        ignorenulls: for first and last: ignore nulls, as in Spark. Default False.
        filter: Spark SQL, of the rows that count; None for all.
        aggregator: what computes it, of `columns`; None for a function that Arrow has.
    """

    name: str
    function: Function
    column: str | None = None
    ignorenulls: bool = False
    filter: str | None = None
    aggregator: Aggregator | None = None
    columns: tuple[str, ...] = ()

    @property
    def where(self) -> str | None:
        """The column that says which rows count: one condition has one, in each version of a job."""
        return None if self.filter is None else f"where_{zlib.crc32(self.filter.encode()):08x}"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(name for name in (self.column, *self.columns, self.where) if name is not None)

    @property
    def mergeable(self) -> bool:
        """Whether what is kept of some rows and of others can become one."""
        return not self.function.by_order and (self.aggregator is None or self.aggregator.mergeable)

    @property
    def function_name(self) -> str:
        """Of what it is."""
        return self.function.value if self.aggregator is None else self.aggregator.name

    @property
    def arguments(self) -> str | None:
        """What its function is given, as text; None for all rows."""
        parameters = () if self.aggregator is None else self.aggregator.parameters
        given = self.column if self.aggregator is None else ", ".join((*self.columns, *parameters))
        return given if self.filter is None else f"{given or '*'} WHERE {self.filter}"

    def alias(self, name: str) -> Aggregate:
        """The same under another name."""
        return dataclasses.replace(self, name=name)


def aggregates_text(aggregates: Sequence[Aggregate]) -> str:
    """Such as ``count() AS orders``."""
    return ", ".join(f"{a.function_name}({a.arguments or ''}) AS {a.name}" for a in aggregates)


@dataclass(frozen=True)
class Aggregation(Operation):
    """An operation that keeps aggregates by key and emits them, once per key and batch, as a JSON object.

    The state of a key is a row of accumulators (`json.row_codec`). Integers are 64-bit, floats are
    doubles, decimals exact; texts, booleans, dates and timestamps are kept by count, min, max, first and last. A record
    whose value has no room in a sum is an error of that record.

    Args:
        stored: the signature of a store that holds what was written before; None for a store that begins empty.
        by: the columns of a key of several, for the output; empty for one.
    """

    aggregates: tuple[Aggregate, ...]
    stored: StoreSignature | None = None
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an operation without results, or with two of one name."""
        names = list(self.result_names)
        if not names or len(set(names)) != len(names):
            raise ConfigurationError(
                f"aggregate() got the names {names}: it needs at least one, and no two alike. Name them with alias()."
            )

    @property
    def result_names(self) -> tuple[str, ...]:
        """Of the columns that it puts out, besides the key's."""
        return tuple(aggregate.name for aggregate in self.aggregates)

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads."""
        return tuple(dict.fromkeys(name for aggregate in self.aggregates for name in aggregate.inputs))

    def writes(self, key_name: str, schema: pa.Schema) -> str:
        """See `Operation.writes`: the key as text, and the results."""
        results = [(name, column.type) for name, column in self.results([], schema)]
        keys = [(name, pa.string()) for name in self.written_keys(key_name)]
        return json_schema(pa.schema([*keys, *self._between_keys_and_results, *results]))

    def written_keys(self, key_name: str) -> tuple[str, ...]:
        return self.by or (key_name,)

    @property
    def _between_keys_and_results(self) -> Sequence[tuple[str, pa.DataType]]:
        return ()

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
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
                    function=aggregate.function_name,
                    column=aggregate.arguments,
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
        arrow = [a for a in accumulators if a.aggregator is None]
        inputs = {a.input: as_kind(a.values(rows), a) for a in arrow if not a.of_all_rows}
        pairs = enumerate(zip(kept, accumulators, strict=True))
        bounds = tuple(SumBound.of(at, a, inputs[a.input]) for at, (of, a) in pairs if has_bound(of))
        table = pa.table({"__key": rows.column("__key"), **inputs})
        grouped = table.group_by("__key", use_threads=False).aggregate([arrow_aggregation(a) for a in arrow])
        # In the order of the store's keys: its reads and its memtable's inserts go through the blocks once.
        key_at = grouped.schema.get_field_index("__key")
        grouped = grouped.take(pc.sort_indices(grouped.column(key_at)))
        keys = grouped.column(key_at).combine_chunks()
        # Arrow appends the results in the order they were asked for; a name may stand there twice.
        offset = 1 if grouped.schema.names[0] == "__key" else 0
        results = (grouped.column(i + offset) for i in range(len(arrow)))
        places = places_by_key(keys, table.column("__key")) if len(arrow) < len(accumulators) else []
        new: list[Column | StateFold] = []
        for a in accumulators:
            if a.aggregator is not None:
                new.append(StateFold.of(a, rows, places))
                continue
            result = next(results)
            new.append(to_column(with_nan(result, keys, table, a) if a.greatest_double else result, a.kind))
        again = partial(self._grouped, key_name, schema=schema, kept=kept, accumulators=accumulators)
        return GroupedAggregation(self, key_name, keys, kept, new, schema, rows, bounds, again)

    @property
    def text(self) -> str:
        return f"aggregate {aggregates_text(self.aggregates)}"

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the results by name, with the types that rows have in Python."""
        results = self.results(states, schema)
        rows = zip(*(python_values(column) for _, column in results), strict=True)
        return [dict(zip((name for name, _ in results), row, strict=True)) for row in rows]

    def results(self, states: Sequence[bytes], schema: pa.Schema) -> list[tuple[str, pa.Array]]:
        """The results of stored values by name, as columns."""
        columns = [column for _, column in self.state_rows(schema).decode(states)]
        try:
            return _results(self.aggregates, self._accumulators(schema), columns, schema)
        except NoResultError as error:
            raise ConfigurationError(f"There is no result of what is kept: {error}.") from error

    def output(
        self, key_name: str, keys: Sequence[bytes], column: pa.Array, results: list[tuple[str, pa.Array]]
    ) -> list[tuple[bytes, bytes]]:
        """What a batch emits: pairs of key and value for the sink."""
        return list(zip(keys, json_rows([*key_columns(key_name, self.by, column), *results]), strict=True))

    def _accumulators(self, schema: pa.Schema) -> tuple[Accumulator, ...]:
        return tuple(one for aggregate in self.aggregates for one in self._accumulators_of(aggregate, schema))

    @staticmethod
    def _accumulators_of(aggregate: Aggregate, schema: pa.Schema) -> tuple[Accumulator, ...]:
        where, column, function = aggregate.where, aggregate.column, aggregate.function
        if where is not None and not pa.types.is_boolean(schema.field(where).type):
            raise ConfigurationError(
                f"{aggregate.name!r} cannot be kept: its filter= is of type {schema.field(where).type}, and says of no "
                "row whether it counts. Give a condition."
            )
        if aggregate.aggregator is not None:
            return (_of_aggregator(aggregate, aggregate.aggregator, schema),)
        logical = pa.int64() if column is None else schema.field(column).type
        kept = accumulators(function, column, logical, aggregate.ignorenulls, where)
        if kept is None:
            raise ConfigurationError(
                f"{aggregate.name!r} cannot be kept: {function.value} of column {column!r} of type {logical}. "
                f"{ADVICE['number' if function.adds else 'ordered']}"
            )
        return kept


def _of_aggregator(aggregate: Aggregate, aggregator: Aggregator, schema: pa.Schema) -> Accumulator:
    types = [schema.field(name).type for name in aggregate.columns]
    for at, (name, kind) in enumerate(zip(aggregate.columns, types, strict=True)):
        needed = needed_of(aggregator.taken, at)
        if not suits(needed, ordered=kind_of(kind) is not None, number=is_number(kind)):
            raise ConfigurationError(
                f"{aggregate.name!r} cannot be kept: {aggregator.name} of column {name!r} of type {kind}. "
                f"{ADVICE[needed]}"
            )
    return Accumulator(
        function=aggregate.function,
        column=None,
        kind=Kind.BYTES,
        logical=aggregator.type_of_result(types),
        where=aggregate.where,
        aggregator=aggregator,
        columns=aggregate.columns,
    )


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
        new: list[Column | StateFold],
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
        self, olds: Sequence[Sequence[bytes | None]], joined: Sequence[Sequence[int]] = ()
    ) -> tuple[list[bytes], list[tuple[str, pa.Array]], list[FunctionError]]:
        """The keys' new state and results, and the rows that have no room in it: then the two are empty.

        Args:
            olds: the keys' state, as in `apply`; more than one where states become one. They must keep no first and
                last then: which row came first is not kept.
            joined: of each of these but the first, by key the place of the row that made it one with those before.
        """
        state_rows = self._operation.state_rows(self._schema)
        stored, *others = (state_rows.decode(old) for old in olds)
        failed = Failed()
        for other, rows in zip(others, joined, strict=True):
            stored = [
                (existed | more, self._one_state(accumulator, more, after, before, rows, failed))
                for accumulator, (existed, before), (more, after) in zip(self._accumulators, stored, other, strict=True)
            ]
        if failed:
            return [], [], self._errors(failed)
        merged, errors = self._added(stored)
        if errors:
            return [], [], errors
        try:
            results = _results(self._operation.aggregates, self._accumulators, merged, self._schema)
        except NoResultError as error:
            at = next(at for at, column in enumerate(merged) if column is error.kept)
            fold, before = self._new[at], stored[at][1]
            assert isinstance(fold, StateFold)
            failed = [(fold.first_without_result(key, before, error.types), reason) for key, reason in error.failed]
            return [], [], self._errors(sorted(failed))
        return state_rows.encode(merged), results, []

    @staticmethod
    def _one_state(
        accumulator: Accumulator, existed: Bools, old: Column, new: Column, joined: Sequence[int], failed: Failed
    ) -> Column:
        """Of two that are kept; to `failed` go the rows that made one of what cannot be one."""
        if accumulator.aggregator is None:
            return merge(accumulator, existed, old, new)
        column, wrong = merged_states(accumulator.aggregator, new, old)
        failed += [(joined[key], reason) for key, reason in wrong]
        return column

    def _added(
        self, stored: Sequence[tuple[Bools, Column]], *, to_nothing: bool = False
    ) -> tuple[list[Column], list[FunctionError]]:
        """What is kept once the rows are added, and those that cannot be: then what is kept is of no use."""
        merged, failed = list[Column](), Failed()
        for accumulator, (existed, before), now in zip(self._accumulators, stored, self._new, strict=True):
            if isinstance(now, StateFold):
                column, wrong = now.onto(before)
                failed += wrong
            else:
                column = now if to_nothing else merge(accumulator, existed, before, now)
            merged.append(column)
        errors = self._errors(failed)
        if self._bounds:
            errors += overflows(self._bounds, self.keys, self._rows_in, [column for _, column in stored])
        by_offset = {error.offset: error for error in reversed(errors)}
        return merged, [by_offset[offset] for offset in sorted(by_offset)]

    def _errors(self, failed: Failed) -> list[FunctionError]:
        if not failed:
            return []
        offsets, keys = self._rows_in.column("__offset"), self._rows_in.column("__key")
        return [
            FunctionError(offsets[at].as_py(), keys[at].as_py().decode("utf-8", "replace"), reason)
            for at, reason in failed
        ]

    def partial(self, tolerant: bool = False) -> Changes:
        """What the batch alone comes to, as output for the stage that merges it (`aggregates.accumulator_rows`)."""
        nothing = self._operation.state_rows(self._schema).decode([None] * len(self.keys))
        kept, failed = self._added(nothing, to_nothing=True)
        if failed:
            if not tolerant:
                raise failed[0]
            return without_failed(self._rows_in, failed, lambda left: self._again(left).partial(tolerant=True))
        values = self._operation.partial_rows(self._schema).encode(kept)
        return Changes([], list(zip(self.keys, values, strict=True)))


def _results(
    aggregates: Sequence[Aggregate],
    accumulators: Sequence[Accumulator],
    columns: Sequence[Column],
    schema: pa.Schema,
) -> list[tuple[str, pa.Array]]:
    fields: list[tuple[str, pa.Array]] = []
    left = iter(zip(accumulators, columns, strict=True))
    for aggregate in aggregates:
        accumulator, column = next(left)
        if aggregate.aggregator is not None:
            types = [schema.field(name).type for name in aggregate.columns]
            fields.append((aggregate.name, results_of(aggregate.aggregator, types, column)))
        elif aggregate.function is Function.MEAN:
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
