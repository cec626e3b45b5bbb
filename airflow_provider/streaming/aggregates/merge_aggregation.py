"""Aggregations by key in two stages: parts of a micro-batch's rows before a repartition, put together behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Accumulator, Function, Kind
from airflow_provider.streaming.aggregates.accumulator_rows import PartialRows
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation, aggregates_text
from airflow_provider.streaming.operations.batch import Changes, StateReader
from airflow_provider.streaming.operations.operation import Batch, Operation


@dataclass(frozen=True)
class PartialAggregation(Operation):
    """An operation without state, before a repartition: it groups a micro-batch's rows, and emits the accumulators.

    Args:
        aggregates: of the job, in its order; none that depends on that of the rows.
    """

    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        """Refuse what depends on the order of the rows, which nobody knows any more after a repartition."""
        if names := [aggregate.name for aggregate in self.aggregates if not aggregate.mergeable]:
            raise ConfigurationError(
                f"The aggregates {', '.join(map(repr, names))} cannot be combined before a repartition: the order of "
                "the rows is not defined behind it, or they have no merge()."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads."""
        return self._aggregation.columns

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`; there is no state, but records under another key would mix with those on the way.

        Which aggregates a record holds it says by itself (`aggregates.accumulator_rows`).
        """
        kept = self._aggregation.signature(key_name, key_type, schema)
        return StoreSignature(key=kept.key, key_type=kept.key_type, operation="repartition")

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`: no state is read."""
        return self._aggregation.grouped(batch).partial(tolerant)

    @property
    def text(self) -> str:
        return f"combine {aggregates_text(self.aggregates)}"

    @property
    def _aggregation(self) -> Aggregation:
        return Aggregation(self.aggregates)


@dataclass(frozen=True)
class MergeAggregation(Aggregation):
    """An operation that keeps the same as `Aggregation`, in the same bytes, of what `PartialAggregation` emits.

    So a job can begin to combine, or cease. What it is told of the types are those of the rows that were aggregated in
    parts.

    Args:
        schema: of these rows; None while their types are not known.
    """

    schema: pa.Schema | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """None: the values are read as they are."""
        return ()

    def of_rows(self, schema: pa.Schema) -> MergeAggregation:
        """The same, once the types are known."""
        columns = Aggregation(self.aggregates).columns
        return dataclasses.replace(self, schema=pa.schema([schema.field(name) for name in columns]))

    def writes(self, key_name: str, schema: pa.Schema) -> str:
        return super().writes(key_name, self._known)

    @property
    def decoder(self) -> PartialRows:
        return self.partial_rows(self._known)

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
        grouped = self.grouped_parts(batch, self._known, parts)
        return grouped.apply(state.get_many(grouped.keys), tolerant)

    @property
    def text(self) -> str:
        return f"{super().text}, from parts"

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        return super().decode_states(states, self._known)

    @property
    def _known(self) -> pa.Schema:
        assert self.schema is not None, "of_rows() comes before any row"
        return self.schema


def _merging(accumulator: Accumulator, column: str) -> Accumulator:
    """How parts of an accumulator are put together: numbers that were counted are added."""
    function = Function.SUM if accumulator.function is Function.COUNT else accumulator.function
    kind = Kind.INTEGER if accumulator.function is Function.COUNT else accumulator.kind
    return dataclasses.replace(accumulator, function=function, column=column, kind=kind, where=None)
