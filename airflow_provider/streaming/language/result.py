"""What a keyed operation comes to."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.aggregates.merge_aggregation import MergeAggregation, PartialAggregation
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.repartition import Repartition
from airflow_provider.streaming.terms.event_time import RECORD_TIME, EventTime
from airflow_provider.streaming.terms.steps import Step, WithColumn

if TYPE_CHECKING:
    from airflow_provider.streaming.language.grouped import GroupedStream

_TIME: Final = "_source_timestamp"
"""The column in which the time of a source's record goes through an internal topic."""

_METHODS: Final = (
    "select", "filter", "with_column", "drop_duplicates", "group_by", "aggregate", "process", "union", "join",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """Aggregates by key, or what a function makes of each key; `GroupedStream` makes it.

    Args:
        name: of the store and of the internal topic; None for the sink's topic.
        combine: whether rows are aggregated before they go through an internal topic.
    """

    grouped: GroupedStream
    operation: Operation
    _: KW_ONLY
    name: str | None = None
    combine: bool = False

    @property
    def halves(self) -> tuple[Operation, Operation]:
        """The operation in two: what is done before an internal topic, and behind it."""
        if self.combine and isinstance(self.operation, Aggregation):
            aggregates = self.operation.aggregates
            return PartialAggregation(aggregates), MergeAggregation(aggregates, by=self.operation.by)
        time = self.time_behind
        times = () if time is None else (time.column,)
        return Repartition(tuple(dict.fromkeys((*self.operation.columns, *times)))), self.operation

    @property
    def event_time(self) -> EventTime | None:
        """Of the rows, where what is done with them depends on it."""
        return self.grouped.stream.event_time if self.operation.timed else None

    @property
    def time_behind(self) -> EventTime | None:
        """The event time of the records of an internal topic: that of the rows, in a column of their values."""
        time = self.event_time
        return dataclasses.replace(time, column=_TIME) if time is not None and time.of_record else time

    @property
    def steps_before(self) -> tuple[Step, ...]:
        """Those before an internal topic: the time of a record goes along as a column."""
        time, steps = self.event_time, self.grouped.steps
        return (*steps, WithColumn(_TIME, RECORD_TIME)) if time is not None and time.of_record else steps

    def sink(self, topic: str) -> Sink:
        """Write the output to a topic: the record's key is the key, its value a JSON object.

        Args:
            topic: created where it is missing, by the deploy DAG or ``topics repair JOB.py --apply``.

        Raises:
            ConfigurationError: it is no topic's name.
        """
        return Sink(topic, self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse what comes before an operation, with what to do."""
            if name in _METHODS:
                raise ConfigurationError(
                    f"{name}() was called on the result of an operation, whose rows have no further steps yet: call "
                    "sink(topic) on it, and read that topic in another job; or compute it in process()."
                )
            raise AttributeError(name)
