"""Runs a join over rows in micro-batches of any size, as the active step does, with a dict for a store."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa

from airflow_provider.changelog.replica import Replica
from airflow_provider.state.digest import digest_of
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_rows import GONE, LEFT, RIGHT, UNKEYED, JoinRows, rows_of_columns
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.joins.join_tables import TableTableJoin
from airflow_provider.streaming.operations.batch import Changes, StoreReader
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, StreamTime
from airflow_provider.streaming.operations.upstream_time import UpstreamTime, upstream_column
from tests.unit.streaming.operations.merging import batch_of

__all__ = ["Come", "Given", "JoinRun", "Told", "left", "random_cuts", "right", "with_marks"]

Join = StreamTableJoin | TableTableJoin | IntervalJoin
Row = TypeVar("Row")


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


class Told(NamedTuple):
    """Between the rows, how far the tasks before are that write a side's."""

    side: int
    mark: int


Come = Given | Told


def with_marks(randomness: random.Random, rows: Sequence[Given], sides: Sequence[int]) -> list[Come]:
    """With what other tasks tell, at any distance behind the rows, or before them."""
    found, seen = list[Come](), dict.fromkeys(sides, -(1 << 40))
    for row in rows:
        found.append(row)
        if randomness.random() < 0.4:
            side = randomness.choice(sides)
            seen[side] = max(seen[side], row.time + randomness.choice([0, 0, 1, -3, -15, 10]))
            found.append(Told(side, seen[side]))
    return found


def random_cuts(randomness: random.Random, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    at = 0
    while at < len(rows):
        size = randomness.randint(1, randomness.choice([1, 3, 40]))
        yield rows[at : at + size]
        at += size


@dataclass
class JoinRun:
    """Args:
    told: the sides that other tasks tell of; rows move the time of the others.
    """

    join: Any
    told: Sequence[int] = ()
    marks: dict[int, int] = field(default_factory=dict)
    store: dict[bytes, bytes] = field(default_factory=dict)
    time: StreamTime = field(default_factory=StreamTime)
    late: int = 0
    output: list[tuple[str, Any]] = field(default_factory=list)
    rows: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def add(self, given: Sequence[Come]) -> list[tuple[str, Any]]:
        """One micro-batch: what it emits, the values as Python has them."""
        join: Operation = self.join
        rows, at = list[Given](), {side: list[int]() for side in self.told}
        for one in given:
            if isinstance(one, Told):
                self.marks[one.side] = one.mark
                continue
            rows.append(one)
            for side in self.told:
                at[side].append(self.marks.get(side, NO_WATERMARK))
        upstream = None
        if self.told:
            upstream = UpstreamTime(
                sides=tuple(self.marks.get(side, NO_WATERMARK) if side in self.told else None for side in (LEFT, RIGHT))
            )
        columns = {upstream_column(side): pa.array(marks, pa.int64()) for side, marks in at.items()}
        batch = batch_of(self._rows(rows, columns), before=self.time)
        placed = join.place(dataclasses.replace(batch, upstream=upstream), 0)
        self.time = placed.after
        self.late += placed.late
        state, changes = StoreReader(cast(Replica, self)), Changes([], [])
        if placed.rows.num_rows:
            changes = join.merge(placed, state, tolerant=False)
        self.read_bytes += sum(len(value) for value in state.known.values() if value is not None)
        self.written_bytes += sum(len(value) for _, value in changes.state if value is not None)
        assert {key for key, _ in changes.state if key in self.store} <= state.known.keys()
        changes = join.close(placed, changes, state)
        before, change = self.digest, sum(state.digest_change(changes.state, join.segments).values())
        for key, value in changes.state:
            if value is None:
                self.store.pop(key, None)
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

    def _rows(self, given: Sequence[Given], columns: Mapping[str, pa.Array]) -> pa.Table:
        pairs = [row.encoded for row in given]
        decoded = JoinRows().decode(pa.chunked_array([pa.array([value for _, value in pairs], pa.binary())]))
        assert not decoded.bad
        offsets = range(self.rows, self.rows + len(pairs))
        self.rows += len(pairs)
        keys = pa.array([key for key, _ in pairs], pa.binary())
        return pa.table({"__key": keys, "__offset": pa.array(offsets, pa.int64()), **decoded.columns, **columns})

    @property
    def digest(self) -> int:
        return digest_of(self.store.keys(), self.store.values())

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        assert len(set(keys)) == len(keys)
        return [self.store.get(key) for key in keys]

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(key, self.store[key]) for key in sorted(self.store) if begin <= key < end])
