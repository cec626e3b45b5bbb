"""A stream: the records of a topic, as rows, after some narrow steps."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Never

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.argument_check import check_kind
from airflow_provider.streaming.column_check import RECORD, Columns, columns_after, find_column
from airflow_provider.streaming.language.grouped import GroupedStream
from airflow_provider.streaming.language.keyed_rows import KeyedRows
from airflow_provider.streaming.language.selection import refuse_generator, selection
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.language.sql_text import is_column
from airflow_provider.streaming.schema_check import check_schema
from airflow_provider.streaming.steps import Filter, Select, Step, WithColumn

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Stream", "stream"]


@dataclass(frozen=True)
class Stream:
    """The records of a topic, as rows; make one with `stream`. Every method returns a new stream.

    Besides its columns a row has ``_source``: a struct of topic, partition, offset, timestamp and key of its record.

    Args:
        topic: that it reads.
        schema: of the JSON value, in Spark DDL; None leaves the value as it is: ``key`` and ``value``, both BINARY.
        key: the column whose text is the records' key; None where there is none, or where it is not known.
        steps: narrow steps, in order.
    """

    topic: str
    _: KW_ONLY
    schema: str | None = None
    key: str | None = None
    steps: tuple[Step, ...] = ()

    @property
    def columns(self) -> Columns | None:
        """By name the types of its columns, in order; None where only Spark understands the schema."""
        return columns_after(self.schema, self.steps)

    def select(self, *expressions: str, name: str | None = None) -> Stream:
        """Replace the columns.

        One of the expressions may be ``explode(...)`` of an array or a map: then a row comes of each element. A
        record of which nothing comes, because there is no element, is counted. ``explode_outer(...)`` makes a row of
        nulls of it.

        Args:
            expressions: Spark SQL, each with ``AS`` and the name of its column, unless it is a column itself; ``*``
                for all columns.
            name: of the count of records of which ``explode`` makes nothing; default ``no_`` and its column.

        Raises:
            ConfigurationError: an expression is no text or has no name, two have one name, or two are generators.
        """
        step = selection(expressions, name)
        columns = self.columns
        if columns is not None:
            _refuse_again(step, columns)
        for column in step.columns:
            if columns is not None and column.generator is None and column.names and is_column(column.expression):
                find_column("select()", column.expression, columns)
        return self._with(step, _key_after(self.key, step))

    def filter(self, condition: str | Column, name: str) -> Stream:
        """Keep the rows for which `condition` is true; count the others under `name`.

        A record of which `select` made several rows counts as filtered when none of them is left.

        Args:
            condition: Spark SQL, or a Column. Null counts as false.
            name: of the count, in the commit record. Filters of one name are counted together.

        Raises:
            ConfigurationError: the name is no text, or the condition makes several rows of one.
        """
        check_kind("filter() got name=", name, str, 'one text, such as name="empty"')
        refuse_generator("filter()", condition)
        return self._with(Filter(condition, name), self.key)

    def with_column(self, name: str, expression: str | Column) -> Stream:
        """Add or replace a column, computed from its own row.

        Args:
            name: of the column.
            expression: Spark SQL, or a Column.

        Raises:
            ConfigurationError: the name is no text or that of the record, or the expression makes several rows of one.
        """
        check_kind("with_column() got name=", name, str, 'one text, such as "half"')
        refuse_generator("with_column()", expression)
        if name.lower() == RECORD:
            raise ConfigurationError(
                f"with_column() names the column {name!r}, which holds the record's topic, partition, offset, "
                "timestamp and key: name it otherwise."
            )
        stays = self.key is None or name.lower() != self.key.lower()
        return self._with(WithColumn(name, expression), self.key if stays else None)

    def union(self, *others: object) -> Never:
        """Refused: a stage reads one topic.

        Raises:
            ConfigurationError: always; it says what to do instead.
        """
        topics = ", ".join(repr(other.topic) if isinstance(other, Stream) else repr(other) for other in others)
        raise ConfigurationError(
            f"union() of the streams of {self.topic!r} and {topics or 'nothing'}: a stage reads one topic, so streams "
            "cannot be united yet. Write both into one topic, by a job with two sinks of their rows or by their "
            "producers, and read that."
        )

    def group_by(self, *columns: str, trust_partitioning: bool = False, partitions: int | None = None) -> GroupedStream:
        """Keep state by one or several columns.

        Where the column is the records' key (`stream(key=...)`), their partitions are taken as they are, and checked.
        Else the rows go through an internal topic with the group as the key, exactly once.

        Args:
            columns: names. Several make a key that is the JSON array of their texts, such as ``["AT","2026-01-31"]``.
            trust_partitioning: take it that all records of a group are in one partition, whatever their keys. Where
                they are not, several tasks keep a part of the group's state each, and the results are wrong.
            partitions: of the internal topic, and so of the state; default as many as this stream's topic has.

        Raises:
            ConfigurationError: a column does not exist or has no text of its own, or there is no internal topic.
        """
        return GroupedStream.of(self, columns, trust_partitioning, partitions)

    def sink(self, topic: str, key: str | None = None) -> Sink:
        """Write the rows to a topic, without any state: the value is a JSON object of all columns.

        Args:
            topic: which has to exist.
            key: the column whose text is the new records' key; default the column that is this stream's.

        Raises:
            ConfigurationError: there is no such column, or none is known to be the key.
        """
        return Sink(topic, KeyedRows.of(self, key))

    def _with(self, step: Step, key: str | None) -> Stream:
        return dataclasses.replace(self, steps=(*self.steps, step), key=key)


def stream(topic: str, schema: str | None = None, key: str | None = None) -> Stream:
    """The stream of a topic's records.

    ::

        lines = stream("lines", schema="line STRING")
        words = lines.select("explode(split(lower(line), '[^a-z]+')) AS word").filter("word <> ''", name="empty")
        job = StatefulJob("words", words.group_by("word").aggregate(F.count().alias("count")).sink("word-counts"))

    Args:
        topic: its name.
        schema: of the JSON value, in Spark DDL, such as ``"id STRING, amount DOUBLE"``. None leaves the value as it is:
            columns ``key`` and ``value``, both BINARY.
        key: the column whose text is the records' key: all records with the same value are in one partition. Without
            it rows are brought together through an internal topic before they are grouped. Default none; ``key``
            where there is no schema.

    Raises:
        ConfigurationError: an argument is no text, the schema has a column twice or a type that Spark does not have,
            or there is no such column.
    """
    check_kind("stream() got topic=", topic, str, "one text")
    for what, given in (("schema", schema), ("key", key)):
        check_kind(f"stream() got {what}=", given, (str, type(None)), "one text")
    check_schema(schema, where="stream()")
    columns = columns_after(schema, ())
    if key is not None and columns is not None:
        find_column("stream(), as its key,", key, columns)
    return Stream(topic, schema=schema, key="key" if schema is None and key is None else key)


def _refuse_again(step: Select, columns: Columns) -> None:
    """Refuse a name beside ``*`` that is among its columns."""
    if all(column.names for column in step.columns):
        return
    known = {name.lower() for name in columns}
    for name in (name for column in step.columns for name in column.names):
        if name.lower() in known:
            raise ConfigurationError(
                f"select() gives a column the name {name!r}, which is among the columns of '*' already: name it "
                "otherwise, with AS, or replace that column with with_column()."
            )


def _key_after(key: str | None, step: Select) -> str | None:
    """Under which name the records' key is still among the columns; None where it is not."""
    for column in step.columns:
        if key is None:
            break
        if not column.names:
            return key
        if column.generator is None and column.expression.strip("`").lower() == key.lower():
            return column.names[0]
    return None
