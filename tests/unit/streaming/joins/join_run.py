"""Runs a join over rows in micro-batches of any size, as the active step does, with a dict for a store."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from airflow_provider.changelog.replica import Replica
from airflow_provider.state.digest import digest_of
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_rows import GONE, LEFT, RIGHT, UNKEYED, JoinRows, rows_of_columns
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.joins.join_tables import TableTableJoin
from airflow_provider.streaming.operations.batch import StoreReader
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.stream_time import StreamTime
from tests.unit.streaming.operations.merging import batch_of

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
        placed = join.place(batch_of(rows, before=self.time), 0)
        self.time = placed.after
        self.late += placed.late
        if placed.rows.num_rows == 0:
            return []
        state = StoreReader(cast(Replica, self))
        changes = join.merge(placed, state, tolerant=False)
        self.read_bytes += sum(len(value) for value in state.known.values() if value is not None)
        self.written_bytes += sum(len(value) for _, value in changes.state if value is not None)
        assert {key for key, _ in changes.state if key in self.store} <= state.known.keys()
        changes = join.close(placed, changes, state)
        before, change = self.digest, sum(state.digest_change(changes.state, join.segments).values())
        for key, value in changes.state:
            if value is None:
                self.store.pop(key)
            else:
                self.store[key] = value
        assert self.digest == (before + change) % 2**64
        mark = self.time.watermark_ms
        expired = None if mark is None else join.expired_before_ms(mark)
        if expired is not None:
            first = time_prefix(expired)
            self.store = {key: value for key, value in self.store.items() if key >= first}
        found = [(key.decode(), None if value is None else json.loads(value)) for key, value in changes.output]
        self.output += found
        return found

    @property
    def digest(self) -> int:
        return digest_of(self.store.keys(), self.store.values())

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        assert len(set(keys)) == len(keys)
        return [self.store.get(key) for key in keys]

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(key, self.store[key]) for key in sorted(self.store) if begin <= key < end])
