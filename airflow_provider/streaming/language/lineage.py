"""Which columns of its sources each column is made of that a job writes, as far as the job's own words say it.

What nobody can read there stays unknown: a function in Python, a Column of pyspark's, SQL that is not understood here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.control.records.job_description import TopicRows
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.aggregates.drop_duplicates import DropDuplicates
from airflow_provider.streaming.aggregates.windowed_aggregate import WINDOW
from airflow_provider.streaming.joins.newest_row import SIGN, NewestRow
from airflow_provider.streaming.language.column_check import BESIDE_COLUMNS, Columns, columns_after
from airflow_provider.streaming.language.expression_columns import columns_named
from airflow_provider.streaming.language.join import Join
from airflow_provider.streaming.language.result import KeptTable, NamedOutput, Result
from airflow_provider.streaming.language.sink import KeyedRows, Sink
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table
from airflow_provider.streaming.terms.steps import Filter, Select, Step, WithColumn

Fields = frozenset[tuple[str, str]]
"""Topics, each with a column of its."""


@dataclass(frozen=True)
class _Rows:
    """Rows somewhere in a job.

    Args:
        topics: that they come from.
        columns: by name, what they are made of; None where that is not known.
    """

    topics: frozenset[str]
    columns: Mapping[str, Fields | None]

    def of(self, name: str) -> Fields | None:
        """What a column is made of, whatever its case; None for one that is not here, too."""
        found = (made for column, made in self.columns.items() if column.lower() == name.lower())
        return next(found, None)

    def of_all(self, names: Iterable[str]) -> Fields | None:
        """What several are made of together; None where that of one is not known."""
        return _together(map(self.of, names))

    def among(self, names: Iterable[str]) -> _Rows:
        """Some of the columns."""
        return _Rows(self.topics, {name: self.of(name) for name in names})


def lineage_of(sinks: Sequence[Sink | Stream | Table]) -> dict[str, TopicRows]:
    """By topic, the rows of all sources and sinks of a job."""
    reader = _Reader()
    written = dict[str, TopicRows]()
    for sink in sinks:
        of = sink.of if isinstance(sink, Sink) else sink
        stream = of.stream if isinstance(of, KeyedRows) else of
        rows, types = reader.rows(stream), reader.types(stream)
        if not isinstance(sink, Sink):
            continue  # state that nobody reads
        names = of.columns if isinstance(of, KeyedRows) else types
        made = {name: found for name in names if name not in BESIDE_COLUMNS and (found := rows.of(name)) is not None}
        written[sink.topic] = TopicRows(
            columns=_texts({name: types.get(name) for name in names}),
            sources=tuple(sorted(rows.topics)),
            made_of={name: _by_topic(found) for name, found in made.items()},
        )
    return {**{topic: TopicRows(columns=columns) for topic, columns in reader.sources.items()}, **written}


class _Reader:
    """Goes through a job's graph; what several use is read once."""

    def __init__(self) -> None:
        self.sources = dict[str, dict[str, str]]()
        """By topic, the types of its columns."""
        self._made = dict[int, _Rows]()

    def rows(self, side: Stream | Table) -> _Rows:
        """Of a stream or a table, after its steps."""
        branches = side.branches if isinstance(side, Stream) else (side,)
        first, *others = [_after(self._given(branch), branch.steps) for branch in branches]
        columns = {
            name: _together([made, *(other.of(name) for other in others)]) for name, made in first.columns.items()
        }
        return _Rows(first.topics.union(*(other.topics for other in others)), columns)

    def types(self, side: Stream | Table) -> Columns:
        """The columns of its rows; none where nobody knows them."""
        unknown = side.origin is not None and side.origin.columns is None
        return {} if unknown else side.columns or {}

    def _given(self, side: Stream | Table) -> _Rows:
        """Before its steps."""
        origin = side.origin
        if origin is None:
            columns = columns_after(side.schema, ()) or {}
            self.sources.setdefault(side.topic, {}).update(_texts(columns))
            names = [name for name in columns if name not in BESIDE_COLUMNS]
            return _Rows(frozenset([side.topic]), {name: frozenset([(side.topic, name)]) for name in names})
        if id(origin) not in self._made:
            self._made[id(origin)] = self._of(origin)
        return self._made[id(origin)]

    def _of(self, origin: Join | Result | NamedOutput | KeptTable) -> _Rows:
        match origin:
            case Join():
                left, right = self.rows(origin.left), self.rows(origin.right)
                on = left.of(origin.on), right.of(origin.on)
                # Only of an outer join the key is the right side's where there is no left one.
                key = _together(on) if origin.how == "outer" else on[0]
                return _Rows(left.topics | right.topics, {**right.columns, **left.columns, origin.on: key})
            case KeptTable():
                rows = self.rows(origin.table)
                return _Rows(rows.topics, {**rows.columns, SIGN: frozenset()})
            case NamedOutput():
                return self._of_function(origin.of, origin.columns)
        operation = origin.operation
        if isinstance(operation, (DropDuplicates, NewestRow)):
            return self._grouped(origin).among(operation.columns)
        if not isinstance(operation, Aggregation) or origin.word != "aggregate":
            return self._of_function(origin, origin.columns or {})
        rows, window = self._grouped(origin), origin.grouped.window
        windows = {} if window is None else {WINDOW: rows.of(window.column)}
        results = {aggregate.name: rows.of_all(aggregate.inputs) for aggregate in operation.aggregates}
        return _Rows(rows.topics, {**rows.among(origin.grouped.by).columns, **windows, **results})

    def _of_function(self, result: Result, columns: Iterable[str]) -> _Rows:
        """What a function puts out under a key is not known, but for the key."""
        rows = self._grouped(result)
        return _Rows(rows.topics, {**dict.fromkeys(columns), **rows.among(result.grouped.by).columns})

    def _grouped(self, result: Result) -> _Rows:
        return self.rows(result.grouped.stream)


def _after(rows: _Rows, steps: Sequence[Step]) -> _Rows:
    for step in steps:
        match step:
            case Filter():
                continue
            case Select():
                rows = _selected(rows, step)
                continue
            case WithColumn():
                made = _named_in(step.expression, rows)
            case _:
                made = rows.of_all(step.columns)
        kept = {name: of for name, of in rows.columns.items() if name.lower() != step.name.lower()}
        rows = _Rows(rows.topics, {**kept, step.name: made})
    return rows


def _selected(rows: _Rows, step: Select) -> _Rows:
    given = dict[str, Fields | None]()
    for selected in step.columns:
        if not selected.names:
            given |= rows.columns
            continue
        # One behind another may name it, unless the rows have a column of that name: they come first.
        new = {name: made for name, made in given.items() if name not in rows.columns}
        made = _named_in(selected.expression, _Rows(rows.topics, {**rows.columns, **new}))
        given |= dict.fromkeys(selected.names, made)
    return _Rows(rows.topics, given)


def _named_in(expression: object, rows: _Rows) -> Fields | None:
    """What an expression of Spark SQL is made of; None where it is not certain which columns it names."""
    import sqlglot
    from sqlglot import expressions as sql
    from sqlglot.errors import SqlglotError

    if not isinstance(expression, str):
        return None
    try:
        tree = sqlglot.parse_one(expression, read="spark")
    except SqlglotError:
        return None
    if tree.find(sql.Query, sql.Star, sql.Placeholder, sql.Parameter, sql.Command) is not None:
        return None
    names = {column.parts[0].name.lower() for column in tree.find_all(sql.Column)}
    sure = {name.split(".")[0].strip("`").lower() for name in columns_named(expression)}
    return rows.of_all(names) if sure <= names else None


def _together(made: Iterable[Fields | None]) -> Fields | None:
    found = list(made)
    known = [one for one in found if one is not None]
    return None if len(known) < len(found) else frozenset().union(*known)


def _texts(columns: Columns) -> dict[str, str]:
    return {name: "" if kind is None else kind.text for name, kind in columns.items() if name not in BESIDE_COLUMNS}


def _by_topic(fields: Fields) -> dict[str, tuple[str, ...]]:
    topics = sorted({topic for topic, _ in fields})
    return {topic: tuple(sorted(name for of, name in fields if of == topic)) for topic in topics}
