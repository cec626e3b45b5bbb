"""A stream: the records of a topic, as rows, after some narrow steps."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_topic
from airflow_provider.streaming.joins.join_rows import How
from airflow_provider.streaming.language.column_check import (
    Columns,
    columns_after,
    find_column,
    written_columns,
)
from airflow_provider.streaming.language.expression_columns import refuse_unknown_columns
from airflow_provider.streaming.language.grouped import GroupedStream
from airflow_provider.streaming.language.grouped_table import GroupedTable
from airflow_provider.streaming.language.join import (
    Join,
    check_join_names,
    interval_of,
    join_with_stream,
    join_with_table,
    joined_time,
    refuse_interval,
    refuse_other_rows,
)
from airflow_provider.streaming.language.result import KeptTable, NamedOutput, Result
from airflow_provider.streaming.language.selection import column_step, filter_step, key_after, selection
from airflow_provider.streaming.language.sink import KeyedRows, Sink
from airflow_provider.streaming.language.table import Table
from airflow_provider.streaming.terms.argument_check import check_kind, given_text
from airflow_provider.streaming.terms.event_time import EventTime, event_time_after, event_time_of
from airflow_provider.streaming.terms.sql_type import check_schema
from airflow_provider.streaming.terms.steps import LatestTime, Step
from airflow_provider.streaming.terms.windows import SessionWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Stream:
    """The records of a topic, as rows; make one with `stream`. Every method returns a new stream.

    Besides its columns a row has ``_source``: a struct of topic, partition, offset, timestamp and key of its record.

    Args:
        topic: that it reads; for a join, what is joined, in words.
        schema: of the JSON value, in Spark DDL; None leaves the value as it is: ``key`` and ``value``, both BINARY.
        key: the column whose text is the records' key; None where there is none, or where it is not known.
        declared_time: its event time, as `stream` was told of it; None where none is read.
        origin: what makes its rows; None for a topic.
        of_changes: whether they are a table's, among which there may be deletions.
    """

    topic: str
    _: KW_ONLY
    schema: str | None = None
    key: str | None = None
    steps: tuple[Step, ...] = ()
    declared_time: EventTime | None = None
    origin: Join | Result | NamedOutput | KeptTable | None = None
    others: tuple[Stream, ...] = ()
    of_changes: bool = False

    @property
    def event_time(self) -> EventTime | None:
        """Of its rows, in the column that holds it after the steps; None where none is read."""
        return None if self.declared_time is None else event_time_after(self.declared_time, self.steps)

    @property
    def columns(self) -> Columns | None:
        """By name the types of its columns, in order; None where only Spark understands the schema."""
        return self.columns_after(self.steps)

    def columns_after(self, steps: tuple[Step, ...]) -> Columns | None:
        """The same after some steps, from the beginning."""
        return columns_after(self._given, steps)

    def written_columns(self, where: str) -> tuple[str, ...]:
        """All of its columns, for what writes its rows as they are."""
        return written_columns(where, self._given, self.steps)

    @property
    def is_union(self) -> bool:
        """Whether it is several streams."""
        return bool(self.others)

    @property
    def branches(self) -> tuple[Stream, ...]:
        """The streams that it is, each of one topic or join."""
        return (dataclasses.replace(self, others=()), *self.others)

    def select(self, *expressions: str, name: str | None = None) -> Stream:
        """Replace the columns.

        One of the expressions may be ``explode(...)`` of an array or a map: then a row comes of each element. A
        record of which nothing comes, because there is no element, is counted. ``explode_outer(...)`` makes a row of
        nulls of it.

        What is the records' key or their event time stays that under another name: ``"at AS sent_at"``.

        Args:
            expressions: Spark SQL, each with ``AS`` and the name of its column, unless it is a column itself; ``*``
                for all columns.
            name: of the count of records of which ``explode`` makes nothing; default ``no_`` and its column.

        Raises:
            ConfigurationError: an expression is no text or has no name, two have one name, two are generators, or one
                names a column that there is not.
        """
        step = selection(expressions, name, self.columns)
        return self._with(step, key_after(self.key, step))

    def filter(self, condition: str | Column, name: str) -> Stream:
        """Keep the rows for which `condition` is true; count the others under `name`.

        A record of which `select` made several rows counts as filtered when none of them is left.

        Args:
            condition: Spark SQL, or a Column. Null counts as false.
            name: of the count, in the commit record. Filters of one name are counted together.

        Raises:
            ConfigurationError: the name is no text, or the condition makes several rows of one, needs others, or names
                a column that there is not.
        """
        check_kind("filter() got name=", name, str, 'one text, such as name="empty"')
        return self._with(filter_step(condition, name), self.key)

    def with_column(self, name: str, expression: str | Column) -> Stream:
        """Add or replace a column, computed from its own row.

        Args:
            name: of the column.
            expression: Spark SQL, or a Column.

        Raises:
            ConfigurationError: the name is no text or that of the record, or the expression makes several rows of
                one, needs others, or names a column that there is not.
        """
        step = column_step(name, expression)
        stays = self.key is None or name.lower() != self.key.lower()
        return self._with(step, self.key if stays else None)

    def output(self, name: str) -> Stream:
        """What a function of `process()` puts out under a name: a stream with columns of its own, and the same key.

        ::

            checked = orders.process(check, ["amount"], outputs={"refunds": "amount DOUBLE"})
            refunds = checked.output("refunds").filter("amount > 10", name="small")

        Args:
            name: one of those that were given to ``process(outputs=...)``.

        Raises:
            ConfigurationError: there is no such output, or this is not what `process()` returned.
        """
        if not isinstance(self.origin, Result) or not self.is_made:
            raise ConfigurationError(
                f"output() got {name!r}, of a stream that is not what process() returned: keep that in a variable, and "
                "call output() of it before any other method."
            )
        return self.origin.grouped.further(self.origin.output(name))

    def union(self, *others: Stream) -> Stream:
        """The rows of several streams, which have the same columns, in any order.

        What follows is done with the rows of each. They come together where they are grouped, joined or written; there
        is no order among them.

        Args:
            others: at least one.

        Raises:
            ConfigurationError: one is no stream, or has other columns or another event time.
        """
        if not others or not all(isinstance(other, Stream) for other in others):
            given = ", ".join(map(given_text, others)) or "nothing"
            raise ConfigurationError(f"union() got {given}: give streams, such as web.union(shop).")
        for other in others:
            refuse_other_rows(self, other)
        branches = tuple(branch for other in others for branch in other.branches)
        return dataclasses.replace(self, key=None, others=(*self.others, *branches))

    def join(
        self,
        other: Stream | Table,
        on: str,
        how: How = "inner",
        *,
        within: str | None = None,
        before: str | None = None,
        after: str | None = None,
        history: str | None = None,
        grace: str | None = None,
        event_time: str | None = None,
        name: str | None = None,
        partitions: int | None = None,
    ) -> Stream:
        """The rows of this stream with those of a table, or of another stream near in time, that have the same key.

        The rows of both sides go through one internal topic, so that they meet in one order. Of its columns the left
        side's come first, then the right side's; the key is there once.

        Args:
            other: the right side.
            on: the column that both have; of a table its key.
            how: ``"inner"`` for rows that have a partner, ``"left"`` for all of this stream, ``"outer"``, of two
                streams, for all of any. A row without partner has nulls in the columns of the other side.
            within: of two streams: how far their times may lie apart, such as ``"10 minutes"``.
            before: of two streams, instead of `within`: how much earlier the right one may be, ``"0 seconds"`` for not
                at all; default not at all.
            after: of two streams, instead of `within`: how much later the right one may be; default not at all.
            history: of a table: for how long its earlier rows are kept, so that a row of the stream meets the one that
                was there at its time; default not at all, and it meets the newest, or with `grace` as long as needed.
            grace: of a table: how long a row of the stream waits, by the stream's time, for rows of the table that come
                later; then it meets the one of its time. Default not at all.
            event_time: of two streams: the column with the event time of a joined row; default the later of the two.
            name: of the store and of the internal topic; default the sink's topic, or what is made of the rows.
            partitions: of the internal topic, and so of the state; default as many as this stream's topic has.

        Raises:
            ConfigurationError: the sides cannot be joined: a column is missing, in both, or of another type; there is
                no interval or no event time for two streams; or the table has another key.
        """
        check_join_names(name, partitions)
        time, steps = self.event_time, tuple[Step, ...]()
        if isinstance(other, Table):
            refuse_interval(other, {"within": within, "before": before, "after": after, "event_time": event_time})
            join = join_with_table(self, other, on, how, history, grace)
        elif isinstance(other, Stream):
            join = join_with_stream(
                self, other, on, how, interval_of(within, before, after, {"history": history, "grace": grace})
            )
            time, steps = joined_time(join, self, other, event_time)
        else:
            raise ConfigurationError(f"join() of the stream of {self.topic!r} got {other!r}: give a stream or a table.")
        return Stream(
            join.text,
            # A row with a null key comes out of a left join, too, and its record's key is empty.
            key=join.on if how == "inner" else None,
            steps=steps,
            declared_time=None if time is None or time.of_record else dataclasses.replace(time, idle_ms=None),
            origin=dataclasses.replace(join, name=name, partitions=partitions),
        )

    def group_by(
        self,
        *columns: str | Window | SessionWindow,
        trust_partitioning: bool = False,
        partitions: int | None = None,
    ) -> GroupedStream:
        """Keep state by one or several columns, and by windows of event time where they are given.

        Where the column is the records' key (`stream(key=...)`), their partitions are taken as they are, and checked.
        Else the rows go through an internal topic with the group as the key, exactly once.

        Args:
            columns: names. Several make a key that is the JSON array of their texts, such as ``["AT","2026-01-31"]``.
                Besides, at most one ``window(...)`` or ``session_window(...)``.
            trust_partitioning: take it that all records of a group are in one partition, whatever their keys. Where
                they are not, several tasks keep a part of the group's state each, and the results are wrong.
            partitions: of the internal topic, and so of the state; default as many as this stream's topic has.

        Raises:
            ConfigurationError: a column does not exist or has no text of its own, the stream has no event time for the
                window, or there is no internal topic.
        """
        return GroupedStream.of(self, columns, trust_partitioning, partitions)

    def drop_duplicates(
        self,
        *columns: str,
        within: str,
        trust_partitioning: bool = False,
        partitions: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Let a row through if none of its key came out whose event time is less than `within` away.

        What comes out is the row, as a JSON object of all columns. What does not is counted as ``duplicates``, beside
        the filters' counts. A row whose time lies before the watermark is dropped as late: what it would have to be
        compared with is forgotten by then. So no two rows of a key come out that are less than `within` apart.

        Behind an internal topic the first one is that which was written there first.

        Args:
            columns: the key; as of `group_by`.
            within: how far apart the times of two rows of a key are at least that both come out, such as ``"1 hour"``.
                For so long a key is kept.
            trust_partitioning: as of `group_by`.
            partitions: as of `group_by`.
            name: of the store and of the internal topic, if there is one; default the sink's topic.

        Raises:
            ConfigurationError: as of `group_by`; or `within` is no duration, the stream has no event time, or its
                columns are known to Spark alone.
        """
        grouped = GroupedStream.of(self, columns, trust_partitioning, partitions, method="drop_duplicates()")
        return grouped.drop_duplicates(within=within, name=name)

    def to_table(
        self, key: str, *, trust_partitioning: bool = False, partitions: int | None = None, name: str | None = None
    ) -> Table:
        """The table of the newest row of each key, by the rows' event time, else by the time of their records.

        Of rows that an operation makes, without an event time, it is the last that came. Nothing deletes a row: where
        one means that, `Table.filter` it.

        Args:
            key: the column whose text is the table's key.
            trust_partitioning: as of `group_by`.
            partitions: as of `group_by`.
            name: of the store and of the internal topic, if there is one; default the sink's topic.

        Raises:
            ConfigurationError: as of `group_by`, or the columns are known to Spark alone.
        """
        return GroupedStream.of(self, (key,), trust_partitioning, partitions, method="to_table()").newest(name)

    def sink(self, topic: str, key: str | None = None) -> Sink:
        """Write the rows to a topic: the value is a JSON object of all columns.

        Args:
            topic: created where it is missing, by the deploy DAG or ``topics repair JOB.py --apply``.
            key: the column whose text is the new records' key; default the column that is this stream's, and for what
                an operation makes its group, with ``@`` and the start of the window where there is one.

        Raises:
            ConfigurationError: there is no such column, or none is known to be the key.
        """
        return Sink(topic, self if self.is_made and key in (None, self._made_key) else KeyedRows.of(self, key))

    @property
    def is_made(self) -> bool:
        """Whether its rows are as an operation or a join puts them out."""
        own = [step for step in self.steps if not isinstance(step, LatestTime)]
        return self.origin is not None and not own and not self.is_union

    @property
    def _made_key(self) -> str | None:
        """The column whose text is the key of the records that make it."""
        return self.origin.on if isinstance(self.origin, Join) else self.key

    @property
    def _given(self) -> str | Columns | None:
        """What its rows have before its steps: what is made of others has columns, and no schema.

        Raises:
            ConfigurationError: nobody knows them.
        """
        if self.origin is None:
            return self.schema
        if self.origin.columns is None:
            raise ConfigurationError(
                f"The columns of what {self.origin.text} makes are not known: process() has schema= for them, apply() "
                "has not. Without one it is written with sink(topic) alone."
            )
        return self.origin.columns

    def _with(self, step: Step, key: str | None) -> Stream:
        refuse_unknown_columns(step, self.columns)
        others = tuple(dataclasses.replace(other, steps=(*other.steps, step), key=None) for other in self.others)
        return dataclasses.replace(self, steps=(*self.steps, step), key=key, others=others)


Table.stream_type = Stream
Table.grouped_type = GroupedTable


def stream(
    topic: str,
    schema: str | None = None,
    key: str | None = None,
    *,
    event_time: str | None = None,
    watermark: str | None = None,
    idle_timeout: str | None = None,
) -> Stream:
    """The stream of a topic's records.

    ::

        lines = stream("lines", schema="line STRING")
        words = lines.select("explode(split(lower(line), '[^a-z]+')) AS word").filter("word <> ''", name="empty")
        job = StatefulJob("words", words.group_by("word").aggregate(F.count().alias("count")).sink("word-counts"))

    Args:
        schema: of the JSON value, in Spark DDL, such as ``"id STRING, amount DOUBLE"``. None leaves the value as it is:
            columns ``key`` and ``value``, both BINARY.
        key: the column whose text is the records' key: all records with the same value are in one partition. Without
            it rows are brought together through an internal topic before they are grouped. Default none; ``key``
            where there is no schema.
        event_time: the column that says when a record happened, as it is after the steps: a TIMESTAMP, or a BIGINT in
            milliseconds since 1970; `Stream.select` may give it another name. Default the record's own
            timestamp, ``_source.timestamp``, where `watermark` is given.
        watermark: for how long records are waited for that come late, such as ``"10 minutes"`` or ``"0 seconds"``: a
            window is closed once the task has seen an event time that is so much later than the window's end. Windows
            need it; None reads no event time.
        idle_timeout: after how long without records the time of a partition goes on with the clock, such as
            ``"5 minutes"``, so that what is open closes there too, also behind an internal topic. Default
            never: time moves by records alone.

    Raises:
        ConfigurationError: an argument is no text or no topic's name, the schema has a column twice or a type that
            Spark does not have, there is no such column, `watermark` is missing, or a duration is none.
    """
    check_kind("stream() got topic=", topic, str, "one text")
    check_topic("stream()", topic)
    for what, given in (("schema", schema), ("key", key)):
        check_kind(f"stream() got {what}=", given, (str, type(None)), "one text")
    check_schema(schema, "stream()")
    columns = columns_after(schema, ())
    if key is not None and columns is not None:
        find_column("stream(), as its key,", key, columns)
    return Stream(
        topic,
        schema=schema,
        key="key" if schema is None and key is None else key,
        declared_time=event_time_of("stream()", event_time, watermark, idle_timeout),
    )
