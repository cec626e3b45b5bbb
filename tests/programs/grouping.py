"""Groups and windows of a random program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as S

from airflow_provider.streaming import Stream, Table, session_window, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from tests.programs.nodes import TIME, Drawing, Kind, Node
from tests.programs.records import CLOSE_MS


def _groups(drawing: Drawing, node: Node) -> list[str]:
    columns = node.of_kind("text", "number", null=False)
    return drawing.chance.sample(columns, min(len(columns), drawing.chance.choice([1, 1, 1, 2])))


@dataclass(frozen=True)
class _Made:
    """An aggregate, in both languages."""

    here: Aggregate
    there: str
    kind: Kind
    null: bool = True


def _aggregates(drawing: Drawing, node: Node, by: Sequence[str], *, of_table: bool = False) -> list[_Made]:
    chance = drawing.chance
    numbers, plain = node.of_kind("number"), node.of_kind("number", "text")
    number = chance.choice(numbers) if numbers else None
    column = chance.choice(plain)
    found: list[Callable[[str], _Made]] = [
        lambda name: _Made(F.count().alias(name), "count(*)", "number", null=False),
        lambda name: _Made(F.count(column).alias(name), f"count({column})", "number", null=False),
    ]
    if number is not None:
        found += [
            lambda name: _Made(F.sum(number).alias(name), f"sum({number})", "number"),
            lambda name: _Made(
                F.count(filter=f"{number} > 1").alias(name), f"count_if({number} > 1)", "number", null=False
            ),
        ]
    if number is not None and not of_table:
        ranked = f"struct({number} AS by, {column} AS it)"
        found += [
            lambda name: _Made(F.min(number).alias(name), f"min({number})", "number"),
            lambda name: _Made(
                F.max_by(column, number).alias(name),
                f"max({ranked}) FILTER (WHERE {number} IS NOT NULL).it",
                node.kinds[column],
            ),
            lambda name: _Made(F.count_distinct(column).alias(name), f"count(DISTINCT {column})", "number", null=False),
            lambda name: _Made(
                F.collect_set(column, limit=1000).alias(name), f"array_sort(collect_set({column}))", "list"
            ),
            lambda name: _Made(F.max(column).alias(name), f"max({column})", node.kinds[column]),
        ]
    return [make(drawing.name()) for make in chance.sample(found, min(len(found), chance.choice([1, 2])))]


def _grouped(
    node: Node, made: Stream | Table, by: Sequence[str], aggregates: Sequence[_Made], rows: DataFrame, windowed: bool
) -> Node:
    """What grouping comes to: a table, or a stream of windows."""
    grouping = [*by, *(["window"] if windowed else [])]
    sums = [S.expr(_field(one.there)).alias(one.here.name) for one in aggregates]
    kinds: dict[str, Kind] = {name: node.kinds[name] for name in by}
    if windowed:
        kinds["window"] = "window"
    kinds |= {one.here.name: one.kind for one in aggregates}
    null = frozenset(one.here.name for one in aggregates if one.null and one.kind != "list")
    found = Node(
        made=made, topics=node.topics, rows=rows.groupBy(*grouping).agg(*sums), kinds=kinds, nullable=null
    )  # fmt: skip
    if isinstance(made, Table):
        return dataclasses.replace(found, key=tuple(grouping), settled=node.settled)
    rows = found.rows.withColumn(TIME, S.expr("unix_millis(window.end) - 1")).filter(f"{TIME} < {CLOSE_MS}")
    return dataclasses.replace(found, rows=rows, unique=(frozenset(grouping),), time="window")


def _field(text: str) -> str:
    function, dot, field = text.rpartition(").")
    return f"({function})).{field}" if dot else text


def aggregate(drawing: Drawing, node: Node) -> Node | None:
    by = _groups(drawing, node)
    if not by:
        return None
    aggregates = _aggregates(drawing, node, by)
    here = [one.here for one in aggregates]
    made = node.stream.group_by(*by).aggregate(*here, name=drawing.name("a"))
    found = _grouped(node, made, by, aggregates, node.rows, windowed=False)
    return drawing.said(found, node, f"group_by({by}).aggregate({[one.there for one in aggregates]})")


def windows(drawing: Drawing, node: Node) -> Node | None:
    by = [name for name in _groups(drawing, node) if name != node.time]
    if node.time is None or not by:
        return None
    chance, aggregates = drawing.chance, _aggregates(drawing, node, by)
    sizes = chance.choice([("4 seconds",), ("4 seconds", "1 second"), ("20 seconds", "10 seconds"), None])
    gap = chance.choice(["1 second", "5 seconds"])
    kind = session_window(node.time, gap) if sizes is None else window(node.time, *sizes)
    emit = chance.choice(("close", "close", "close", "update"))
    grouped = node.stream.group_by(*by, kind)
    here, name = [one.here for one in aggregates], drawing.name("w")
    made: Stream | Table = (
        grouped.aggregate(*here, emit="close", name=name) if emit == "close" else grouped.aggregate(*here, name=name)
    )
    at = S.timestamp_millis(S.col(TIME))
    column = S.session_window(at, gap) if sizes is None else S.window(at, *sizes)
    rows = node.rows.drop("window").withColumn("window", column)
    if sizes is None:
        rows = node.rows.drop("window")
        named = S.session_window(S.timestamp_millis(S.col(TIME)), gap).alias("window")
        found = _sessions(node, made, by, aggregates, rows, named)
    else:
        found = _grouped(node, made, by, aggregates, rows, windowed=True)
    return drawing.said(
        found, node, f"group_by({by}, {kind.text}).aggregate({[one.there for one in aggregates]}, {emit})"
    )


def _sessions(
    node: Node, made: Stream | Table, by: Sequence[str], aggregates: Sequence[_Made], rows: DataFrame, named: Any
) -> Node:
    sums = [S.expr(_field(one.there)).alias(one.here.name) for one in aggregates]
    grouped = rows.groupBy(*by, named).agg(*sums)
    # As of windows of one size, which were grouped already.
    again = [dataclasses.replace(one, there=f"first({one.here.name})") for one in aggregates]
    return _grouped(node, made, by, again, grouped, windowed=True)


def table_groups(drawing: Drawing, node: Node) -> Node | None:
    columns = [name for name in node.of_kind("text", "number") if (name,) != node.key]
    if not columns:
        return None
    by = drawing.chance.sample(columns, min(len(columns), drawing.chance.choice([1, 1, 2])))
    aggregates = _aggregates(drawing, node, by, of_table=True)
    made = node.table.group_by(*by).aggregate(*(one.here for one in aggregates), name=drawing.name("g"))
    rows = node.rows.filter(" AND ".join(f"{name} IS NOT NULL" for name in by))
    found = _grouped(node, made, by, aggregates, rows, windowed=False)
    found = dataclasses.replace(found, deletes=True)
    return drawing.said(found, node, f"table group_by({by}).aggregate({[one.there for one in aggregates]})")
