"""Aggregations by key in two stages: parts of a micro-batch's rows before a repartition, put together behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Accumulator, Function, Kind
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation, aggregates_text
from airflow_provider.streaming.aggregates.partial_rows import PartialRows
from airflow_provider.streaming.operations.batch import Changes, StateReader
from airflow_provider.streaming.operations.operation import Batch, Operation

_COMBINED: Final = frozenset({Function.COUNT, Function.SUM, Function.MIN, Function.MAX, Function.MEAN})


def can_combine(aggregates: Sequence[Aggregate]) -> bool:
    """Whether parts of all of them, of whichever rows and in whichever order, can be put together again."""
    return all(aggregate.function in _COMBINED for aggregate in aggregates)


@dataclass(frozen=True)
class PartialAggregation(Operation):
    """An operation without state, before a repartition: it groups a micro-batch's rows, and emits the accumulators.

    Args:
        aggregates: of the job, in its order; `can_combine` is true of them.
    """

    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        """Refuse what depends on the order of the rows, which nobody knows any more after a repartition."""
        if not can_combine(self.aggregates):
            names = [a.name for a in self.aggregates if a.function not in _COMBINED]
            raise ConfigurationError(
                f"The aggregates {', '.join(map(repr, names))} cannot be combined before a repartition: the order of "
                "the rows is not defined behind it."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads."""
        return self._aggregation.columns

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`; there is no state, but records under another key would mix with those on the way.

        Which aggregates a record holds it says by itself (`aggregates.partial_rows`).
        """
        kept = self._aggregation.signature(key_name, key_type, schema)
        return StoreSignature(key=kept.key, key_type=kept.key_type, operation="repartition")

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`: no state is read."""
        return self._aggregation.grouped(batch).partial(tolerant)

    @property
    def text(self) -> str:
        """See `Operation.text`."""
        return f"combine {aggregates_text(self.aggregates)}"

    @property
    def _aggregation(self) -> Aggregation:
        return Aggregation(self.aggregates)


@dataclass(frozen=True)
class MergeAggregation(Operation):
    """An operation that keeps the same as `Aggregation`, in the same bytes, of what `PartialAggregation` emits.

    Args:
        aggregates: of the job, in its order.
        schema: of the rows that were aggregated in parts; None while their types are not known.
        stored: the signature of a store that holds what was written before; None for a store that begins empty.
    """

    aggregates: tuple[Aggregate, ...]
    schema: pa.Schema | None = None
    stored: StoreSignature | None = None
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an operation without results, or with two of one name."""
        Aggregation(self.aggregates)

    @property
    def columns(self) -> tuple[str, ...]:
        """None: the values are read as they are."""
        return ()

    def of_rows(self, schema: pa.Schema) -> MergeAggregation:
        """The same, once the types are known."""
        columns = Aggregation(self.aggregates).columns
        return dataclasses.replace(self, schema=pa.schema([schema.field(name) for name in columns]))

    @property
    def decoder(self) -> PartialRows:
        """See `Operation.decoder`."""
        return self._aggregation.partial_rows(self._known)

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`: the same as without combining, so that a job can begin to, or cease."""
        return self._aggregation.signature(key_name, key_type, schema)

    def going_on(self, signature: StoreSignature) -> MergeAggregation:
        """See `Operation.going_on`: aggregates are found again by their names."""
        return dataclasses.replace(self, stored=signature)

    def reading(
        self, signature: StoreSignature, schema: pa.Schema | None, before: Mapping[str, Operation]
    ) -> StoreSignature:
        """See `Operation.reading`: a record says itself which aggregates it holds."""
        return dataclasses.replace(signature, combined=True)

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`; the rows have those columns."""
        partial = self.decoder
        parts = tuple(
            _merging(accumulator, name) for accumulator, name in zip(partial.accumulators, partial.names, strict=True)
        )
        grouped = self._aggregation.grouped_parts(batch, self._known, parts)
        return grouped.apply(state.get_many(grouped.keys), tolerant)

    @property
    def text(self) -> str:
        """See `Operation.text`."""
        return f"aggregate {aggregates_text(self.aggregates)}, from parts"

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`; the types are those of the rows that were aggregated in parts."""
        return self._aggregation.decode_states(states, self._known)

    @property
    def _aggregation(self) -> Aggregation:
        return Aggregation(self.aggregates, self.stored, self.by)

    @property
    def _known(self) -> pa.Schema:
        assert self.schema is not None, "of_rows() comes before any row"
        return self.schema


def _merging(accumulator: Accumulator, column: str) -> Accumulator:
    """How parts of an accumulator are put together: numbers that were counted are added."""
    function = Function.SUM if accumulator.function is Function.COUNT else accumulator.function
    kind = Kind.INTEGER if accumulator.function is Function.COUNT else accumulator.kind
    return dataclasses.replace(accumulator, function=function, column=column, kind=kind)
