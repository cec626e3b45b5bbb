"""A table: the newest record of each key of a topic."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_topic
from airflow_provider.streaming.joins.join_rows import How
from airflow_provider.streaming.joins.join_tables import TableTableJoin
from airflow_provider.streaming.joins.newest_row import NewestRow
from airflow_provider.streaming.language.column_check import (
    Columns,
    check_event_time,
    columns_after,
    find_column,
    written_columns,
)
from airflow_provider.streaming.language.expression_columns import refuse_unknown_columns
from airflow_provider.streaming.language.join import (
    Join,
    check_how,
    check_join_names,
    check_joined_on,
    check_table_key,
    join_on_foreign_key,
    joined_columns,
    refuse_key_of_several,
)
from airflow_provider.streaming.language.result import KeptTable, Result
from airflow_provider.streaming.language.selection import (
    column_step,
    filter_step,
    key_after,
    refuse_generator,
    selection,
)
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.terms.argument_check import check_kind
from airflow_provider.streaming.terms.event_time import OF_RECORD, EventTime, event_time_after, event_time_of
from airflow_provider.streaming.terms.sql_type import check_schema
from airflow_provider.streaming.terms.steps import DELETED_ROWS, Filter, Step

if TYPE_CHECKING:
    from pyspark.sql import Column

    from airflow_provider.streaming.language.grouped_table import GroupedTable
    from airflow_provider.streaming.language.stream import Stream

_OF_STREAMS: Final = ("drop_duplicates", "aggregate", "process", "union")


@dataclass(frozen=True)
class Table:
    """The newest row of each key: of a topic (`table`), of two tables joined, or of aggregates that change.

    Args:
        topic: that it reads; else what it is, in words.
        key: the column whose text is the records' key; several, parted by commas, are none that can be joined on.
        origin: what makes it; None for a topic.
        watermarked: whether it is known how far its time has got: a row of a stream waits until it has passed its own.
        broadcast: whether each task that joins it has all of it.
    """

    stream_type: ClassVar[type[Stream]]
    """What `to_stream` makes; set by its module, which knows this one."""

    grouped_type: ClassVar[type[GroupedTable]]
    """The same of `group_by`."""

    topic: str
    _: KW_ONLY
    schema: str | None = None
    key: str
    event_time: EventTime = OF_RECORD
    origin: Join | Result | KeptTable | None = None
    steps: tuple[Step, ...] = ()
    watermarked: bool = False
    broadcast: bool = False

    @property
    def columns(self) -> Columns | None:
        """By name the types of its columns, in order; None where only Spark understands the schema."""
        return columns_after(self._given, self.steps)

    @property
    def _given(self) -> str | Columns | None:
        return self.schema if self.origin is None else self.origin.columns

    @property
    def branches(self) -> tuple[Table, ...]:
        """Itself; a stream may be several."""
        return (self,)

    def select(self, *expressions: str) -> Table:
        """Replace the columns, as of a stream: that of the key has to stay, under another name if need be.

        Args:
            expressions: Spark SQL, each with ``AS`` and the name of its column, unless it is a column itself; ``*``
                for all columns.

        Raises:
            ConfigurationError: as `Stream.select`; or one makes several rows of one, or none is the key.
        """
        for expression in expressions:
            refuse_generator("select() of a table", expression)
        step = selection(expressions, None, self.columns)
        key = key_after(self.key, step) if self._has_key else self.key
        if key is None:
            raise ConfigurationError(
                f"select() of the table {self.topic!r} leaves out its key: its rows and deletions come under that. "
                f"Name {self.key!r}, too."
            )
        time = event_time_after(self.event_time, (step,))
        made = dataclasses.replace(self._with(step), key=key, event_time=time)
        if made.columns is not None and not time.of_record:
            check_event_time(made.columns, time.column, "table(event_time=...)")
        return made

    def filter(self, condition: str | Column) -> Table:
        """The rows for which `condition` is true; a row that becomes another one is deleted, and so may come back.

        Args:
            condition: Spark SQL, or a Column. Null counts as false.

        Raises:
            ConfigurationError: it makes several rows of one, needs others, or names a column that there is not.
        """
        return self._with(filter_step(condition, None))

    def with_column(self, name: str, expression: str | Column) -> Table:
        """Add or replace a column, computed from its own row; not that of the key.

        Raises:
            ConfigurationError: as `Stream.with_column`, or it is the key.
        """
        step = column_step(name, expression)
        if name.lower() == self.key.lower():
            raise ConfigurationError(
                f"with_column() names {name!r}, the key of the table {self.topic!r}: its rows and deletions come under "
                "that. Make a column of another name, and group_by() that."
            )
        return self._with(step)

    def group_by(self, *columns: str, partitions: int | None = None) -> GroupedTable:
        """Keep aggregates by other columns than the key: a row that changes is taken out of its group, and added anew.

        Args:
            columns: names. Several make a key that is the JSON array of their texts. A row with null in one of them is
                in no group.
            partitions: of the internal topic, and so of the state; default as many as the table has.

        Raises:
            ConfigurationError: a column does not exist or has no text of its own, or there is a window.
        """
        return self.grouped_type.of(self, columns, partitions)

    def join(
        self, other: Table, on: str, how: How = "inner", *, name: str | None = None, partitions: int | None = None
    ) -> Table:
        """The table of the rows of two tables with the same key, or whose column holds keys of the other one.

        Args:
            other: the right side.
            on: its key. Of this table it is the key, too, or a foreign key: a text, an integer, a boolean or a date.
                The rows then have this table's key, and null there meets nothing.
            how: ``"inner"`` for rows that are in both, ``"left"`` for those of this table, ``"outer"`` for those of
                any, which a foreign key does not have.
            name: of the store and of the internal topic; default the sink's topic, or what is made of the rows.
            partitions: of the internal topic, and so of the state; default as many as this table's topic has.

        Raises:
            ConfigurationError: the other side is no table, or has another key, or both have a column of one name.
        """
        if not isinstance(other, Table):
            raise ConfigurationError(
                f"join() of the table {self.topic!r} got {_text(other)}: a table is joined with a table. Join a stream "
                "with a table, by the stream's join()."
            )
        for side in (self, other):
            if side.broadcast:
                raise ConfigurationError(
                    f"join() of two tables got the table {side.topic!r} with broadcast=True, which is for streams: "
                    "each change of the other one would come out of every task. Leave it out."
                )
        check_how(how)
        check_join_names(name, partitions)
        refuse_key_of_several(other, check_joined_on(on))
        check_table_key(other, on)
        if self.key.lower() != on.lower():
            foreign = join_on_foreign_key(self, other, on, how, name, partitions)
            return Table(foreign.text, key=self.key, origin=foreign)
        joined, columns = joined_columns(self, other, on)
        join = Join(self, other, TableTableJoin(joined=joined, how=how), columns, name=name, partitions=partitions)
        return Table(join.text, key=on, origin=join)

    def sink(self, topic: str) -> Sink:
        """Write the rows to a topic: a record for each change, without value for a deletion.

        Behind steps they are kept once more, so that a deletion comes out for what came out before, and for no other.

        Args:
            topic: created where it is missing, by the deploy DAG or ``topics repair JOB.py --apply``.

        Raises:
            ConfigurationError: it is no topic's name, or the table is that of a topic already, as it is.
        """
        if self.steps:
            names = written_columns(f"sink() of the table {self.topic!r}", self._given, self.steps)
            kept = KeptTable(self, NewestRow(columns=names, time=self.time), self.columns or {})
            return Sink(topic, dataclasses.replace(self, origin=kept, steps=()))
        if self.origin is None:
            raise ConfigurationError(
                f"sink() was called on the table of the topic {self.topic!r}, which would be copied: read that topic, "
                "or join() the table first."
            )
        return Sink(topic, self)

    @property
    def time(self) -> str | None:
        """By which two rows of a key are compared, in words; None where the last is the newest: one task wrote both."""
        return self.event_time.text if self.origin is None else None

    def to_stream(self) -> Stream:
        """Its changes as a stream: a row each time that the row of a key changes; deletions are counted as `deleted`.

        Which changes there are depends on where micro-batches end, the last one of each key does not.

        Raises:
            ConfigurationError: it is the table of a topic.
        """
        if self.origin is None:
            raise ConfigurationError(
                f"to_stream() was called on the table of the topic {self.topic!r}: read that topic with stream()."
            )
        steps = tuple(
            dataclasses.replace(step, name=DELETED_ROWS) if isinstance(step, Filter) else step for step in self.steps
        )
        key = self.key if self._has_key else None
        return self.stream_type(self.topic, key=key, steps=steps, origin=self.origin, of_changes=True)

    @property
    def _has_key(self) -> bool:
        """Whether its key is a column: of windows, and of several columns, it is none."""
        return self.origin is None or self.key in (self.columns or {})

    def _with(self, step: Step) -> Table:
        refuse_unknown_columns(step, self.columns)
        return dataclasses.replace(self, steps=(*self.steps, step))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse what a table cannot do, with what to do."""
            if name in _OF_STREAMS:
                raise ConfigurationError(
                    f"{name}() was called on a table, {self.topic!r}, whose rows change: call to_stream() first, "
                    'for a row of each change; or for windows let aggregate(..., emit="close") make a stream.'
                )
            raise AttributeError(name)


def table(
    topic: str,
    schema: str,
    key: str,
    event_time: str | None = None,
    *,
    watermark: str | None = None,
    idle_timeout: str | None = None,
    broadcast: bool = False,
) -> Table:
    """The table of a topic: the last record of each key is its row, and a record without value deletes it.

    ::

        orders = stream("orders", schema="id STRING, customer STRING, amount DOUBLE")
        customers = table("customers", schema="customer STRING, country STRING", key="customer")
        job = StatefulJob("shop", orders.join(customers, on="customer", how="left").sink("enriched-orders"))

    Args:
        topic: its name; it may be compacted.
        schema: of the JSON value, in Spark DDL, the key's column among its columns.
        key: the column whose text is the records' key.
        event_time: the column with the time from which on a row holds, a TIMESTAMP or a BIGINT in epoch ms; default the
            record's timestamp, which also counts for a deletion. Of two rows of a key the later one by it stays.
        watermark: how much later than others its rows may come, such as ``"10 seconds"``: then a row of a stream waits
            until the table is known up to its time, and meets the row that held then, whichever was read first. Default
            none: it meets the row that is there when it comes, or as the join's ``grace=`` says.
        idle_timeout: with a watermark: after how long without records the time of a partition goes on with the clock,
            such as ``"1 second"``, so that a table that seldom changes holds no stream up. Default: after a minute
            nobody waits for that partition until it has a record again.
        broadcast: have all of the table in each task of a join, for a small table: the stream's rows then stay in the
            tasks, and in the order, that their partitions give them, however many have one key.

    Raises:
        ConfigurationError: an argument is no text or no topic's name, the schema has a column twice or a type that
            Spark does not have, there is no such column, or a duration is none.
    """
    for what, given in (("topic", topic), ("schema", schema), ("key", key)):
        check_kind(f"table() got {what}=", given, str, "one text")
    check_topic("table()", topic)
    check_kind("table() got event_time=", event_time, (str, type(None)), "the name of a column")
    check_kind("table() got broadcast=", broadcast, bool, "True or False")
    check_schema(schema, "table()")
    columns = columns_after(schema, ())
    if columns is not None:
        find_column("table(), as its key,", key, columns)
        if event_time is not None:
            check_event_time(columns, event_time, "table(event_time=...)")
    time = OF_RECORD if event_time is None else EventTime(event_time, 0)
    if watermark is not None or idle_timeout is not None:
        time = event_time_of("table()", event_time, watermark, idle_timeout) or time
    return Table(topic, schema=schema, key=key, event_time=time, watermarked=watermark is not None, broadcast=broadcast)


def _text(given: object) -> str:
    topic = getattr(given, "topic", None)
    return f"{type(given).__name__.lower()} {topic!r}" if isinstance(topic, str) else repr(given)
