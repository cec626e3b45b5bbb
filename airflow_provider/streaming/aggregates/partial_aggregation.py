"""Aggregates of a micro-batch's rows of a key, which a later stage merges: one record a key instead of one a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation, aggregates_text
from airflow_provider.streaming.operations.batch import StateReader
from airflow_provider.streaming.operations.changes import Changes
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

        Which aggregates a record holds it says by itself (`operations.partial_rows`).
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
