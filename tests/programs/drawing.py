"""Random programs of the language, each with what it has to come to by plain batch operations of Spark.

What is drawn has a meaning that follows from the records alone:

- a stream meets a table as of its own time where the table has a watermark, or one that is there before the stream;
- changes of a table are read where they become a table again, because which there are depends on micro-batches;
- duplicates are exact ones, because which of others comes first depends on partitions;
- the newest row of a key is drawn where no two rows of a key have one time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

from airflow_provider.streaming import StatefulJob, Table
from airflow_provider.streaming.language.sink import Sink
from tests.programs.grouping import aggregate, table_groups, windows
from tests.programs.joins import foreign, tables, with_stream, with_table
from tests.programs.nodes import Drawing, Node
from tests.programs.steps import (
    changes,
    drop_duplicates,
    explode,
    filter,
    select,
    split_and_union,
    to_table,
    union,
    with_column,
)

DEPTH: Final = 5

Step = Callable[[Drawing, Node], Node | None]
"""Draws an operation on a node; None where it does not fit."""

_STREAM_STEPS: Final[tuple[Step, ...]] = (
    filter, with_column, select, explode, split_and_union, union, drop_duplicates, to_table, aggregate,
    windows, windows, windows, with_table, with_table, with_stream, with_stream,
)  # fmt: skip
_TABLE_STEPS: Final[tuple[Step, ...]] = (
    filter, with_column, select, table_groups, table_groups, tables, foreign, foreign, changes,
)  # fmt: skip


class Program(Drawing):
    """A program of so many steps, each most often of what the one before made, and two sinks."""

    def __init__(self, spark: SparkSession, seed: int) -> None:
        super().__init__(spark, seed)
        drawn = [self.chance.choices(self.nodes, [6, 3, 1, 1])[0]]
        while len(drawn) <= DEPTH or not _can_end(drawn[-1]):
            node = drawn[-1] if self.chance.random() < 0.75 else self.chance.choice(self.nodes)
            step = self.chance.choice(_TABLE_STEPS if node.is_table else _STREAM_STEPS)
            if (made := step(self, node)) is not None:
                drawn.append(made)
                self.nodes.append(made)
        ends = [drawn[-1], self.chance.choice([node for node in drawn[1:] if _can_end(node)])]
        self.sinks = {f"out{at}": node for at, node in enumerate(ends)}
        self.topics = sorted(frozenset[str]().union(*(node.topics for node in self.sinks.values())))
        self.text += [f"out{at} of {self.at(node)}" for at, node in enumerate(ends)]

    def job(self) -> StatefulJob:
        """The program itself."""
        return StatefulJob("drawn", *(_sink(node, topic) for topic, node in self.sinks.items()))


def _keys(node: Node) -> list[str]:
    return node.of_kind("text", "number", null=False)


def _can_end(node: Node) -> bool:
    return node.is_table or node.stream.is_made or bool(_keys(node))


def _sink(node: Node, topic: str) -> Sink:
    if isinstance(node.made, Table) or node.stream.is_made:
        return node.made.sink(topic)  # its records have a key
    return node.stream.sink(topic, key=_keys(node)[0])
