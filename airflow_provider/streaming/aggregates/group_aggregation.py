"""Aggregates by key of a table's rows, each of which can be taken out again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation, aggregates_text
from airflow_provider.streaming.aggregates.aggregator import Aggregator
from airflow_provider.streaming.aggregates.built_in import Moments
from airflow_provider.streaming.aggregates.exact_sums import ExactMean, ExactSum, ExactVariance, SignedCount
from airflow_provider.streaming.operations.batch import Changes, StateReader, StoreReader
from airflow_provider.streaming.operations.limits import Limits, first_too_large
from airflow_provider.streaming.operations.operation import Batch

_ROWS: Final = "__rows"
"""The aggregate that counts a group's rows, whatever the others are."""


@dataclass(frozen=True)
class GroupAggregation(Aggregation):
    """An operation that keeps aggregates of a table's rows by group, and emits those that changed.

    Its rows have a sign: 1 to be added, -1 to be taken out (`joins.newest_row`). A group without rows is deleted. A row
    that has no place in it stops the task whatever the job's policy is: left out it would be taken out later all the
    same.
    """

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`.

        An aggregate that is added later would lack the rows that are in already, and have them taken out: so all of
        them are part of what the state means.
        """
        kept = super().signature(key_name, key_type, schema)
        return dataclasses.replace(kept, join=f"the aggregates {self._text} of a table")

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        grouped = self.grouped(batch)
        old = state.get_many(grouped.keys)
        states, results, failed = grouped.merged([old])
        if failed:
            raise failed[0]
        counts = results.pop()[1].to_pylist()
        new = [kept if count else None for kept, count in zip(states, counts, strict=True)]
        at = [place for place, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
        keys = [grouped.keys[place] for place in at]
        values = self.output(
            batch.key_name,
            keys,
            pa.array(keys, pa.binary()),
            [(name, column.take(pa.array(at, pa.int64()))) for name, column in results],
        )
        output = [(key, value if counts[place] else None) for place, (key, value) in zip(at, values, strict=True)]
        return Changes([(key, new[place]) for place, key in zip(at, keys, strict=True)], output)

    def fitted(self, batch: Batch, changes: Changes, state: StoreReader, limits: Limits, tolerant: bool) -> Changes:
        if large := limits.of(changes):
            raise first_too_large(batch.rows, large)
        return changes

    @property
    def result_names(self) -> tuple[str, ...]:
        return super().result_names[:-1]

    def results(self, states: Sequence[bytes], schema: pa.Schema) -> list[tuple[str, pa.Array]]:
        """See `Aggregation.results`: without the number of rows."""
        return super().results(states, schema)[:-1]

    @property
    def text(self) -> str:
        return f"aggregate {self._text}, of a table's rows"

    @property
    def _text(self) -> str:
        return aggregates_text([dataclasses.replace(one, columns=one.columns[1:]) for one in self.aggregates[:-1]])


def aggregates_of_rows(aggregates: Sequence[Aggregate], sign: str) -> tuple[Aggregate, ...]:
    """Some aggregates as a table's rows can be added to them and taken out again, and the number of rows.

    Raises:
        ConfigurationError: of one, what is left without a row does not follow from what it keeps.
    """
    kept = []
    for one in aggregates:
        aggregator = _exact(one)
        if aggregator is None:
            raise ConfigurationError(
                f"aggregate() of a table got {one.name!r}, and {one.function_name}() cannot take a row out again: "
                "use count(), sum(), avg() or a variance; or to_stream() before group_by(), for each change once; or "
                'a window of a stream with emit="close".'
            )
        columns = one.columns if one.column is None else (one.column,)
        kept.append(
            dataclasses.replace(
                one, function=Function.STATE, column=None, aggregator=aggregator, columns=(sign, *columns)
            )
        )
    rows = Aggregate(name=_ROWS, function=Function.STATE, aggregator=SignedCount("count"), columns=(sign,))
    return (*kept, rows)


def _exact(aggregate: Aggregate) -> Aggregator | None:
    of, name = aggregate.aggregator, aggregate.function_name
    if isinstance(of, Moments):
        return ExactVariance(name, of.population, of.root)
    match aggregate.function:
        case Function.COUNT:
            return SignedCount(name)
        case Function.SUM:
            return ExactSum(name)
        case Function.MEAN:
            return ExactMean(name)
    return None
