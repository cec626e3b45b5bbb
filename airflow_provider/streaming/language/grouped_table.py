"""A table whose rows are grouped by other columns than its key, waiting for what is to be kept of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.aggregates.group_aggregation import GroupAggregation, aggregates_of_rows
from airflow_provider.streaming.joins.newest_row import SIGN, GroupChanges
from airflow_provider.streaming.language.column_check import check_aggregate, check_grouping
from airflow_provider.streaming.language.grouped import AGGREGATES, GroupedStream
from airflow_provider.streaming.language.result import KeptTable
from airflow_provider.streaming.language.table import Table
from airflow_provider.streaming.terms.argument_check import check_kind, check_number, given_text
from airflow_provider.streaming.terms.windows import SessionWindow, Window


@dataclass(frozen=True)
class GroupedTable:
    """A table and the columns that it is grouped by; `Table.group_by` makes it.

    Args:
        partitions: of the internal topic; None for as many as the table has.
    """

    table: Table
    by: tuple[str, ...]
    partitions: int | None = None

    @classmethod
    def of(cls, table: Table, by: Sequence[object], partitions: object) -> GroupedTable:
        """See `Table.group_by`."""
        if any(isinstance(one, (Window, SessionWindow)) for one in by):
            raise ConfigurationError(
                f"group_by() of the table {table.topic!r} got a window, and its rows change: their time is when they "
                'did. Make a column of the time with with_column("day", "to_date(at)"), or group a stream by windows.'
            )
        names = tuple(one for one in by if isinstance(one, str))
        if not names or len(names) < len(by) or len({name.lower() for name in names}) < len(names):
            raise ConfigurationError(
                f"group_by() of the table {table.topic!r} got {', '.join(map(given_text, by)) or 'nothing'}: give the "
                "names of columns, each once."
            )
        if table.broadcast:
            raise ConfigurationError(
                f"group_by() got the table {table.topic!r} with broadcast=True, which is for joins of streams: leave "
                "it out."
            )
        check_number("group_by() got partitions", partitions, "partitions", whole=True, none="those of the table")
        for name in names if table.columns is not None else ():
            check_grouping(table.columns or {}, name)
        return cls(table, names, partitions if isinstance(partitions, int) else None)

    def aggregate(self, *aggregates: Aggregate, name: str | None = None) -> Table:
        """Keep aggregates by group, of the rows that the table has: a table again.

        The old row of a key that changes, or is deleted, is taken out of its group, and the new one is added to its
        own. A group without rows is deleted.

        Args:
            aggregates: ``count``, ``sum``, ``avg`` and ``mean``, variances and standard deviations.
            name: of the stores and of the internal topic; default the sink's topic.

        Raises:
            ConfigurationError: there is none, two have one name, a column does not exist or cannot be kept, or one is
                of a function that cannot take a row out again.
        """
        for aggregate in aggregates:
            check_kind("aggregate() got ", aggregate, Aggregate, AGGREGATES)
            if self.table.columns is not None:
                check_aggregate(aggregate, self.by, self.table.columns)
        if SIGN in (self.table.columns or {}):
            raise ConfigurationError(
                f"aggregate() of the table {self.table.topic!r} needs the name {SIGN!r}, which a column of it has: "
                "give that one another name with select()."
            )
        signed, table = aggregates_of_rows(aggregates, SIGN), self.table
        for where, condition in {one.where: one.filter for one in signed if one.filter is not None}.items():
            try:
                table = table.with_column(str(where), condition)
            except ConfigurationError as error:
                raise ConfigurationError(f"aggregate(), with filter=: {error}") from None
        operation = GroupAggregation(signed, by=self.by if len(self.by) > 1 else ())
        columns = tuple(dict.fromkeys((*self.by, *(one for one in operation.columns if one != SIGN))))
        changes = GroupChanges(columns=columns, time=table.time, by=self.by)
        known = table.columns or {}
        kept = KeptTable(
            table, changes, {SIGN: None, **{one: known.get(one) for one in columns}}, partitions=self.partitions
        )
        rows = Table.stream_type(kept.text, origin=kept)
        result = GroupedStream(rows, self.by, trust_partitioning=True).aggregated(operation, name)
        return Table(result.text, key=result.grouped.key, origin=result)
