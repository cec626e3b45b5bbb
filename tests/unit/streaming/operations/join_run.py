"""Runs a join over rows in micro-batches of any size, as the active step does, with a dict for a store."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.operations.join_interval import IntervalJoin
from airflow_provider.streaming.operations.join_rows import GONE, LEFT, RIGHT, UNKEYED, JoinRows, rows_of_columns
from airflow_provider.streaming.operations.join_stream_table import StreamTableJoin
from airflow_provider.streaming.operations.join_tables import TableTableJoin
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.operations.timed_rows import (
    FurtherReader,
    PlacingOperation,
    RangeReader,
    TimedOperation,
)

__all__ = ["Given", "JoinRun", "left", "random_cuts", "right"]

Join = StreamTableJoin | TableTableJoin | IntervalJoin


class Given(NamedTuple):
    """A row as it comes to a join; its column besides the key is ``l`` or ``r``."""

    side: int
    key: str | None
    time: int
    value: int | None

    @property
    def encoded(self) -> tuple[bytes, bytes]:
        key = pa.array([self.key], pa.string())
        name = "r" if self.side else "l"
        rows = rows_of_columns(("k", key), [(name, pa.array([self.value], pa.int64()))])
        flags = self.side | (GONE if self.value is None else 0) | (UNKEYED if self.key is None else 0)
        return (self.key or "").encode(), JoinRows().encode(np.array([flags], np.uint8), np.array([self.time]), rows)[0]


def left(key: str | None, time: int, value: int | None) -> Given:
    return Given(LEFT, key, time, value)


def right(key: str | None, time: int, value: int | None) -> Given:
    return Given(RIGHT, key, time, value)


def random_cuts(randomness: random.Random, rows: Sequence[Given]) -> Iterator[Sequence[Given]]:
    at = 0
    while at < len(rows):
        size = randomness.randint(1, randomness.choice([1, 3, 40]))
        yield rows[at : at + size]
        at += size


@dataclass
class JoinRun:
    join: Any
    store: dict[bytes, bytes] = field(default_factory=dict)
    time: StreamTime = field(default_factory=StreamTime)
    late: int = 0
    output: list[tuple[str, Any]] = field(default_factory=list)
    rows: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def add(self, given: Sequence[Given]) -> list[tuple[str, Any]]:
        """One micro-batch: what it emits, the values as Python has them."""
        join: Operation = self.join
        keys, values = zip(*(row.encoded for row in given), strict=True)
        decoded = JoinRows().decode(pa.chunked_array([pa.array(values, pa.binary())]))
        assert not decoded.bad
        rows = pa.table(
            {
                "__key": pa.array(keys, pa.binary()),
                "__offset": range(self.rows, self.rows + len(keys)),
                **decoded.columns,
            }
        )
        self.rows += len(keys)
        assert isinstance(join, PlacingOperation)
        placed = join.place(rows, self.time)
        rows, self.time = placed.rows, placed.after
        self.late += placed.late
        if rows.num_rows == 0:
            return []
        grouped = join.group("k", rows)
        if isinstance(grouped, RangeReader):
            grouped.read(self.range)
        old = [self.store.get(key) for key in grouped.keys]
        if isinstance(grouped, FurtherReader):
            while further := grouped.further_keys(old):
                old += [self.store.get(key) for key in further]
        self.read_bytes += sum(len(value) for value in old if value is not None)
        changes = grouped.apply(old)
        self.written_bytes += sum(len(value) for _, value in changes.state if value is not None)
        assert {key for key, _ in changes.state if key in self.store} <= set(grouped.keys)
        if not isinstance(join, TimedOperation):
            # The digest takes them in this order.
            at = {key: number for number, key in enumerate(grouped.keys)}
            places = [at[key] for key, _ in changes.state if key in at]
            assert places == sorted(places)
            assert len(at) == len(grouped.keys)
            assert all(value is not None for key, value in changes.state if key not in at)
        if isinstance(join, TimedOperation):
            changes = join.close(changes, placed, self.range, "k")
        for key, value in changes.state:
            if value is None:
                self.store.pop(key)
            else:
                self.store[key] = value
        if isinstance(join, TimedOperation) and self.time.watermark_ms is not None:
            first = time_prefix(join.expired_before_ms(self.time.watermark_ms))
            self.store = {key: value for key, value in self.store.items() if key >= first}
        found = [(key.decode(), None if value is None else json.loads(value)) for key, value in changes.output]
        self.output += found
        return found

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(key, self.store[key]) for key in sorted(self.store) if begin <= key < end])
