"""Streams and tables of a random program, each with its rows as Spark has them in one batch."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as S
from pyspark.sql.window import Window as Partition

from airflow_provider.streaming import Stream, Table
from tests.programs.records import CUSTOMER, CUSTOMERS, ORDER, ORDERS, PRICE, PRICES, RETURNS, Records

TIME: Final = "__time"
"""The oracle's column with the event time of a stream's row, epoch ms, and that of a table of a topic."""

UNTIL: Final = "__until"

Kind = Literal["text", "number", "window", "list"]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A stream or a table, and its rows.

    Args:
        topics: from which it is made.
        rows: its columns, and `TIME` where it has one.
        nullable: columns in which there may be null.
        unique: sets of columns: rows that are equal in one are the same. Of a table unused.
        time: the column with the event time of a stream's rows, or of a table's of a topic; None where there is none.
        key: of a table.
        settled: whether it is a table that is there before any stream.
        deletes: whether it is a table of which rows may be deleted.
        versions: of a table with a watermark, its rows from `TIME` until `UNTIL`.
    """

    made: Stream | Table
    topics: frozenset[str]
    rows: DataFrame
    kinds: Mapping[str, Kind]
    nullable: frozenset[str] = frozenset()
    unique: tuple[frozenset[str], ...] = ()
    time: str | None = None
    key: tuple[str, ...] = ()
    settled: bool = False
    deletes: bool = False
    versions: DataFrame | None = None

    @property
    def stream(self) -> Stream:
        assert isinstance(self.made, Stream)
        return self.made

    @property
    def table(self) -> Table:
        assert isinstance(self.made, Table)
        return self.made

    @property
    def is_table(self) -> bool:
        return isinstance(self.made, Table)

    def of_kind(self, *kinds: Kind, null: bool = True) -> list[str]:
        """Its columns of some types."""
        return [name for name, kind in self.kinds.items() if kind in kinds and (null or name not in self.nullable)]


class Drawing:
    """What there is to draw from: the sources, and what was made of them."""

    def __init__(self, spark: SparkSession, seed: int) -> None:
        self.chance = random.Random(seed)
        self.records = Records(self.chance)
        self.text = list[str]()
        self._names = itertools.count(1)
        self._spark = spark
        self.nodes = [self._orders(), self._returns(), self._customers(), self._prices()]

    def name(self, prefix: str = "c") -> str:
        """Another one each time, so that no two columns meet in a join."""
        return f"{prefix}{next(self._names)}"

    def said(self, node: Node, of: Node, text: str) -> Node:
        """The node, after it is written down how it was made."""
        self.text.append(f"{len(self.nodes)} = {self.at(of)}.{text}")
        return node

    def at(self, node: Node) -> str:
        return str(next((at for at, one in enumerate(self.nodes) if one is node), "the same, renamed"))

    def other(self, fits: Callable[[Node], bool]) -> Node | None:
        """Another node, or the same."""
        fitting = [node for node in self.nodes if fits(node)]
        return self.chance.choice(fitting) if fitting else None

    # -- sources -------------------------------------------------------------------------------------------------

    def _rows(self, schema: str, values: Sequence[Mapping[str, Any]]) -> DataFrame:
        fields = [field.split() for field in schema.split(", ")]
        arrow = pa.schema([(name, pa.int64() if kind == "BIGINT" else pa.string()) for name, kind in fields])
        return self._spark.createDataFrame(pa.Table.from_pylist(list(values), arrow))

    def _orders(self) -> Node:
        return self._events("orders", ORDERS)

    def _returns(self) -> Node:
        return self._events("returns", RETURNS)

    def _events(self, topic: str, made: Stream) -> Node:
        rows = self._rows(ORDER, [value for _, value, _ in self.records.values(topic)])
        return Node(
            made=made,
            topics=frozenset({topic}),
            rows=rows.withColumn(TIME, S.col("at")),
            kinds={"id": "number", "customer": "text", "product": "text", "amount": "number", "at": "number"},
            nullable=frozenset({"amount"}),
            unique=(frozenset({"id"}), frozenset({"at"})),
            time="at",
        )

    def _customers(self) -> Node:
        newest = {key: value for key, value, _ in self.records.values("customers")}
        return Node(
            made=CUSTOMERS,
            topics=frozenset({"customers"}),
            rows=self._rows(CUSTOMER, [value for value in newest.values() if value is not None]),
            kinds={"customer": "text", "country": "text", "credit": "number"},
            nullable=frozenset({"country"}),
            key=("customer",),
            settled=True,
            deletes=True,
        )

    def _prices(self) -> Node:
        given = [
            (value or {"product": key, "price": None}) | {TIME: at_ms}
            for key, value, at_ms in self.records.values("prices")
        ]
        until = S.lead(TIME).over(Partition.partitionBy("product").orderBy(TIME))
        rows = self._rows(f"{PRICE}, {TIME} BIGINT", given).withColumn(UNTIL, until)
        rows = rows.filter("price IS NOT NULL")
        return Node(
            made=PRICES,
            topics=frozenset({"prices"}),
            rows=rows.filter(f"{UNTIL} IS NULL").drop(TIME, UNTIL),
            versions=rows,
            kinds={"product": "text", "price": "number", "since": "number"},
            key=("product",),
            time="since",
            deletes=True,
        )


def renamed(drawing: Drawing, node: Node, names: Mapping[str, str]) -> Node:
    """The columns that are named, with other names; no others."""
    expressions = [old if old == new else f"{old} AS {new}" for old, new in names.items()]
    beside = [name for name in (TIME, UNTIL) if name in node.rows.columns]
    return dataclasses.replace(
        node,
        made=node.made.select(*expressions),
        rows=node.rows.selectExpr(*expressions, *beside),
        versions=None if node.versions is None else node.versions.selectExpr(*expressions, TIME, UNTIL),
        kinds={new: node.kinds[old] for old, new in names.items()},
        nullable=frozenset(names[old] for old in node.nullable if old in names),
        unique=tuple(frozenset(names[one] for one in unique) for unique in node.unique if unique <= names.keys()),
        key=tuple(names.get(one, one) for one in node.key),
        time=None if node.time is None else names.get(node.time, node.time),
    )


def of_one_key(node: Node) -> bool:
    """Whether it is a table whose key is one column."""
    return node.is_table and len(node.key) == 1 and node.key[0] in node.kinds
