"""What a keyed operation comes to: the origin of a stream or a table."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.aggregates.merge_aggregation import MergeAggregation, PartialAggregation
from airflow_provider.streaming.language.column_check import Columns, columns_after
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.repartition import Repartition
from airflow_provider.streaming.terms.event_time import OF_RECORD, RECORD_TIME, EventTime
from airflow_provider.streaming.terms.steps import Step, WithColumn

if TYPE_CHECKING:
    from airflow_provider.streaming.language.grouped import GroupedStream
    from airflow_provider.streaming.language.table import Table


@dataclass(frozen=True)
class KeptTable:
    """Rows of a table that one more stage keeps by its key.

    Args:
        columns: of what the operation puts out.
        name: of the store and of the internal topic; None for one that follows from where the rows go.
        partitions: of the internal topic that it writes; None for as many as the table has.
    """

    table: Table
    operation: Operation
    columns: Columns
    _: KW_ONLY
    name: str | None = None
    partitions: int | None = None

    word: ClassVar[str] = "changes"

    @property
    def text(self) -> str:
        """What it is, for messages."""
        return f"rows of {self.table.topic}"


_TIME: Final = "_source_timestamp"
"""The column in which the time of a source's record goes through an internal topic."""


@dataclass(frozen=True)
class Result:
    """Aggregates by key, rows without their duplicates, or what a function makes of each key; see `GroupedStream`.

    Args:
        word: what makes it, such as ``aggregate``.
        columns: of its rows; None where nobody knows them, as of a `process()` that was not told.
        name: of the store and of the internal topic; None for one that follows from where the rows go.
        combine: whether rows are aggregated before they go through an internal topic.
        time: of the rows of a `process()`, where they have its column.
    """

    grouped: GroupedStream
    operation: Operation
    _: KW_ONLY
    word: str
    columns: Columns | None = None
    name: str | None = None
    combine: bool = False
    time: EventTime | None = None

    @property
    def text(self) -> str:
        """What it is, for messages."""
        return f"{self.word}() of {self.grouped.stream.topic}"

    def time_among(self, columns: Columns | None) -> EventTime | None:
        """The event time of rows that have some columns; None where it is not among them."""
        return self.time if self.time is not None and self.time.column in (columns or ()) else None

    def output(self, name: object) -> NamedOutput:
        """One of the outputs with a name.

        Raises:
            ConfigurationError: there is none of that name.
        """
        outputs = self.operation.outputs
        if not isinstance(name, str) or name not in outputs:
            there = f"those of {self.text} are {', '.join(map(repr, outputs))}" if outputs else f"{self.text} has none"
            raise ConfigurationError(
                f"output() got {name!r}, and {there}: name it, with the schema of its rows, in "
                'process(outputs={"refunds": "amount DOUBLE"}).'
            )
        return NamedOutput(self, name, self.grouped.with_key(columns_after(outputs[name], ()) or {}))

    @property
    def halves(self) -> tuple[Operation, Operation]:
        """The operation in two: what is done before an internal topic, and behind it."""
        if self.combine and isinstance(self.operation, Aggregation):
            aggregates = self.operation.aggregates
            return PartialAggregation(aggregates), MergeAggregation(aggregates, by=self.operation.by)
        time = self.time_behind
        times = () if time is None else (time.column,)
        columns = tuple(dict.fromkeys((*self.operation.columns, *times)))
        return Repartition(columns, None if time is None else self.operation), self.operation

    @property
    def event_time(self) -> EventTime | None:
        """Of the rows that the operation gets, where what is done with them depends on it."""
        return self.grouped.stream.event_time or OF_RECORD if self.operation.needs_time else None

    @property
    def time_behind(self) -> EventTime | None:
        """The event time of the records of an internal topic: that of the rows, in a column of their values."""
        time = self.event_time
        if time is None:
            return None
        return dataclasses.replace(time, column=_TIME if time.of_record else time.column, idle_ms=None)

    @property
    def steps_before(self) -> tuple[Step, ...]:
        """Those before an internal topic: the time of a record goes along as a column."""
        time, steps = self.event_time, self.grouped.steps
        return (*steps, WithColumn(_TIME, RECORD_TIME)) if time is not None and time.of_record else steps


@dataclass(frozen=True)
class NamedOutput:
    """What a `process()` puts out under a name, beside the rows that are its own; made where that is.

    Args:
        columns: of its rows.
    """

    of: Result
    output: str
    columns: Columns

    @property
    def text(self) -> str:
        """What it is, for messages."""
        return f"the output {self.output!r} of {self.of.text}"

    @property
    def word(self) -> str:
        """What makes it."""
        return self.of.word

    @property
    def name(self) -> str | None:
        """Of the store of what makes it."""
        return self.of.name
