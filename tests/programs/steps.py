"""Steps of a random program that need no group and no partner."""

from __future__ import annotations

import dataclasses

from pyspark.sql import functions as S
from pyspark.sql.window import Window as Partition

from airflow_provider.streaming import Stream, Table
from tests.programs.nodes import TIME, Drawing, Kind, Node, of_one_key, renamed
from tests.programs.records import CLOSE_MS


def _condition(drawing: Drawing, node: Node) -> str | None:
    columns = node.of_kind("number", "text")
    if not columns:
        return None
    column = drawing.chance.choice(columns)
    if node.kinds[column] == "text":
        return f"{column} <> '{drawing.chance.choice(['ann', 'tea', 'AT', 'rum'])}'"
    return f"{column} {drawing.chance.choice(['% 3 <> 1', '> 1', '< 5', 'IS NOT NULL'])}"


def filter(drawing: Drawing, node: Node) -> Node | None:
    condition = _condition(drawing, node)
    if condition is None:
        return None
    if node.is_table:
        made: Stream | Table = node.table.filter(condition)
        rows = node.rows.filter(condition)
        versions = None if node.versions is None else node.versions.filter(condition)
        kept = dataclasses.replace(node, made=made, rows=rows, versions=versions, deletes=True)
        return drawing.said(kept, node, f"filter({condition})")
    # The last records pass, so that time goes on.
    if node.time is not None and node.kinds.get(node.time) != "window":
        condition = f"({condition}) OR {node.time} >= {CLOSE_MS}"
    of_rows = condition if node.time in (None, *node.kinds) else condition.replace(str(node.time), TIME)
    made = node.stream.filter(condition, name=drawing.name("f"))
    return drawing.said(
        dataclasses.replace(node, made=made, rows=node.rows.filter(of_rows)), node, f"filter({condition})"
    )


def with_column(drawing: Drawing, node: Node) -> Node | None:
    chance, name = drawing.chance, drawing.name()
    column = chance.choice([one for one in node.kinds if node.kinds[one] != "list"])
    numbers = {"window": f"unix_millis({column}.end)", "text": f"length({column})", "number": f"{column} + 1"}
    texts = {"text": f"concat({column}, '-')", "number": f"CAST({column} AS STRING)"}
    of = node.kinds[column]
    kind: Kind = "text" if of in texts and chance.random() < 0.5 else "number"
    expression = (texts if kind == "text" else numbers)[of]
    versions = None if node.versions is None else node.versions.withColumn(name, S.expr(expression))
    found = dataclasses.replace(
        node,
        made=node.made.with_column(name, expression),
        rows=node.rows.withColumn(name, S.expr(expression)),
        versions=versions,
        kinds={**node.kinds, name: kind},
        nullable=node.nullable | ({name} if column in node.nullable else set()),
    )
    return drawing.said(found, node, f"with_column({name}, {expression})")


def select(drawing: Drawing, node: Node) -> Node | None:
    if any(key not in node.kinds for key in node.key) or len(node.key) > 1:
        return None
    stays = {*node.key, *([node.time] if node.time in node.kinds else [])}
    chosen = [name for name in node.kinds if name in stays or drawing.chance.random() < 0.7]
    names = {name: drawing.name() if drawing.chance.random() < 0.5 else name for name in chosen}
    return drawing.said(renamed(drawing, node, names), node, f"select({names})") if names else None


def explode(drawing: Drawing, node: Node) -> Node:
    name = drawing.name()
    found = dataclasses.replace(
        node,
        made=node.stream.select("*", f"explode(array(1L, 2L)) AS {name}"),
        rows=node.rows.selectExpr("*", f"explode(array(1L, 2L)) AS {name}"),
        kinds={**node.kinds, name: "number"},
        unique=tuple(unique | {name} for unique in node.unique),
    )
    return drawing.said(found, node, f"explode({name})")


def split_and_union(drawing: Drawing, node: Node) -> Node | None:
    one, two = filter(drawing, node), filter(drawing, node)
    if one is None or two is None:
        return None
    both = dataclasses.replace(one, made=one.stream.union(two.stream), rows=one.rows.unionByName(two.rows))
    return drawing.said(both, node, "the two united")


def union(drawing: Drawing, node: Node) -> Node | None:
    orders, returns = drawing.nodes[:2]
    if node is not orders:
        return None
    made, rows = orders.stream.union(returns.stream), orders.rows.unionByName(returns.rows)
    both = dataclasses.replace(orders, made=made, rows=rows, topics=orders.topics | returns.topics)
    return drawing.said(both, node, "union(1)")


def drop_duplicates(drawing: Drawing, node: Node) -> Node | None:
    plain = set(node.of_kind("text", "number", null=False))
    fitting = [unique for unique in node.unique if unique <= plain]
    if node.time is None or not fitting:
        return None
    columns = sorted(drawing.chance.choice(fitting))
    made = node.stream.drop_duplicates(*columns, within="1 hour", name=drawing.name("d"))
    found = dataclasses.replace(node, made=made, rows=node.rows.dropDuplicates(columns))
    if node.time not in node.kinds:
        return None
    return drawing.said(found, node, f"drop_duplicates({columns})")


def to_table(drawing: Drawing, node: Node) -> Node | None:
    keys = [
        key
        for key in node.of_kind("text", "number", null=False)
        if node.time is not None and any(unique <= {key, node.time} for unique in node.unique)
    ]
    if not keys or node.time not in node.kinds:
        return None
    key = drawing.chance.choice(keys)
    place = S.row_number().over(Partition.partitionBy(key).orderBy(S.col(TIME).desc()))
    found = Node(
        made=node.stream.to_table(key, name=drawing.name("t")),
        topics=node.topics,
        rows=node.rows.withColumn("__place", place).filter("__place = 1").drop("__place", TIME),
        kinds=node.kinds,
        nullable=node.nullable,
        key=(key,),
    )
    return drawing.said(found, node, f"to_table({key})")


def changes(drawing: Drawing, node: Node) -> Node | None:
    if node.deletes or not of_one_key(node) or node.table.origin is None:
        return None
    made = node.table.to_stream().to_table(node.key[0], name=drawing.name("t"))
    return drawing.said(dataclasses.replace(node, made=made), node, "to_stream().to_table()")
