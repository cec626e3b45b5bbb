"""Joins of a random program."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from pyspark.sql import functions as S

from airflow_provider.streaming.joins.join_rows import How
from tests.programs.nodes import TIME, UNTIL, Drawing, Node, of_one_key, renamed
from tests.programs.records import CLOSE_MS


def with_table(drawing: Drawing, node: Node) -> Node | None:
    def fits(other: Node) -> bool:
        if not other.is_table or len(other.key) != 1 or not (other.settled or other.versions is not None):
            return False
        return bool(node.of_kind(other.kinds[other.key[0]]))

    other = drawing.other(fits)
    if other is None:
        return None
    fitting = node.of_kind(other.kinds[other.key[0]])
    on = other.key[0] if other.key[0] in fitting and drawing.chance.random() < 0.8 else drawing.chance.choice(fitting)
    right = renamed(drawing, other, {old: on if (old,) == other.key else drawing.name() for old in other.kinds})
    how = drawing.chance.choice(get_args(Literal["inner", "left"]))
    made = node.stream.join(right.table, on=on, how=how, name=drawing.name("j"))
    if right.versions is None:
        rows = node.rows.join(right.rows, on=on, how=how)
    else:
        if node.time is None:
            return None
        numbered, versions = node.rows.withColumn("__n", S.monotonically_increasing_id()), right.versions
        at = versions.withColumnsRenamed({on: "__on", TIME: "__since"})
        met = S.expr(f"{on} = __on AND __since <= {TIME} AND ({UNTIL} IS NULL OR {TIME} < {UNTIL})")
        rows = numbered.join(at, met, how).drop("__on", "__since", UNTIL, "__n").filter(f"{TIME} < {CLOSE_MS}")
    others = {name: kind for name, kind in right.kinds.items() if name != on}
    found = dataclasses.replace(
        node,
        made=made,
        topics=node.topics | right.topics,
        rows=rows,
        kinds={on: node.kinds[on], **node.kinds, **others},
        nullable=(node.nullable | (set(others) if how == "left" else right.nullable))
        - ({on} if how == "inner" else set()),
    )
    return drawing.said(found, node, f"join({drawing.at(other)} on {on}, {how})")


def with_stream(drawing: Drawing, node: Node) -> Node | None:
    other = drawing.other(lambda one: not one.is_table and one.time is not None)
    if other is None or node.time is None:
        return None
    pairs = [
        (left, right)
        for kind in get_args(Literal["text", "number"])
        for left in node.of_kind(kind)
        for right in other.of_kind(kind)
        if left != node.time and right != other.time
    ]
    if not pairs:
        return None
    alike = [pair for pair in pairs if pair[0] == pair[1]]
    on, of_other = drawing.chance.choice(alike if alike and drawing.chance.random() < 0.8 else pairs)
    right = renamed(drawing, other, {old: on if old == of_other else drawing.name() for old in other.kinds})
    how: How = drawing.chance.choice(get_args(How))
    before, after = drawing.chance.choice([(0, 3), (3, 3), (2, 0), (0, 0), (1, 5)])
    made = node.stream.join(
        right.stream, on=on, how=how, before=f"{before} seconds", after=f"{after} seconds", name=drawing.name("j")
    )
    of_right = right.rows.withColumnsRenamed({on: "__on", TIME: "__at"})
    near = f"{on} = __on AND __at BETWEEN {TIME} - {before * 1000} AND {TIME} + {after * 1000}"
    rows = node.rows.join(of_right, S.expr(near), how)
    # What is last and alone waits for ever, but where its key is null.
    waits = (
        f"({TIME} >= {CLOSE_MS} AND {on} IS NOT NULL AND __at IS NULL) OR "
        f"(__at >= {CLOSE_MS} AND __on IS NOT NULL AND {TIME} IS NULL)"
    )
    rows = rows.filter(f"NOT coalesce({waits}, false)").withColumn(on, S.expr(f"coalesce({on}, __on)"))
    rows = rows.withColumn(TIME, S.expr(f"greatest({TIME}, __at)")).drop("__on", "__at")
    others = {name: kind for name, kind in right.kinds.items() if name != on}
    mine = {name for name in node.kinds if name != on}
    null = (node.nullable | right.nullable) - {on}
    if how != "inner":
        null |= set(others) | ({on} if on in node.nullable | right.nullable else set())
    if how == "outer":
        null |= mine
    found = dataclasses.replace(
        node,
        made=made,
        topics=node.topics | right.topics,
        rows=rows,
        kinds={**node.kinds, **others},
        nullable=frozenset(null),
        unique=tuple(one | two for one in node.unique for two in right.unique),
        time="_event_time",
    )
    return drawing.said(found, node, f"join({drawing.at(other)} on {on} = {of_other}, {how}, {before} {after})")


def tables(drawing: Drawing, node: Node) -> Node | None:
    if not of_one_key(node):
        return None
    (key,) = node.key
    other = drawing.other(lambda one: of_one_key(one) and one.kinds[one.key[0]] == node.kinds[key])
    if other is None:
        return None
    right = renamed(drawing, other, {old: key if (old,) == other.key else drawing.name() for old in other.kinds})
    how: How = drawing.chance.choice(get_args(How))
    found = _joined_tables(drawing, node, right, key, how)
    return drawing.said(found, node, f"join(table {drawing.at(other)} on {key}, {how})")


def foreign(drawing: Drawing, node: Node) -> Node | None:
    if not of_one_key(node):
        return None

    def columns(other: Node) -> list[str]:
        return [name for name in node.of_kind(other.kinds[other.key[0]]) if (name,) != node.key]

    other = drawing.other(lambda one: of_one_key(one) and bool(columns(one)))
    if other is None:
        return None
    on = drawing.chance.choice(columns(other))
    right = renamed(drawing, other, {old: on if (old,) == other.key else drawing.name() for old in other.kinds})
    found = _joined_tables(drawing, node, right, on, drawing.chance.choice(get_args(Literal["inner", "left"])))
    return drawing.said(found, node, f"join(table {drawing.at(other)} on foreign {on})")


def _joined_tables(drawing: Drawing, node: Node, right: Node, on: str, how: How) -> Node:
    others = {name: kind for name, kind in right.kinds.items() if name != on}
    null = node.nullable | (set(others) if how != "inner" else right.nullable)
    return Node(
        made=node.table.join(right.table, on=on, how=how, name=drawing.name("j")),
        topics=node.topics | right.topics,
        rows=node.rows.join(right.rows, on=on, how=how),
        kinds={**node.kinds, **others},
        nullable=frozenset(null | ({name for name in node.kinds if name != on} if how == "outer" else set())),
        key=node.key,
        settled=node.settled and right.settled,
        deletes=node.deletes or right.deletes,
    )
