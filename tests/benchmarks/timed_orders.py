"""Orders in the order of their times but for some that come late, and what has to come of them per hour."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from airflow_provider.kafka.partitioners import by_murmur2
from tests.benchmarks.case import PARTITIONS, Case, Record, Side, slices

__all__ = ["TimedOrders"]

_HOUR_MS: Final = 3_600_000
_WAIT_MS: Final = 600_000
_LATE: Final = (0.05, 0.002)
"""Shares of those that are late by up to ten minutes, and by up to an hour."""


class TimedOrders:
    """The orders.

    Args:
        orders: how many.
        customers: that they are of, at random.
        hours: over which their times are spread.
    """

    def __init__(self, orders: int, customers: int, hours: int) -> None:
        random = np.random.default_rng(1)
        self._ids = random.integers(0, customers, orders)
        self._names = [f"customer-{customer:08d}" for customer in range(customers)]
        self._amounts = random.integers(1, 10_000, orders)
        # Not so long ago that brokers would take records for too old.
        begin = (time.time_ns() // 1_000_000 // _HOUR_MS - hours - 1) * _HOUR_MS
        times = begin + np.arange(orders) * (hours * _HOUR_MS) // orders
        chosen = random.random(orders)
        late = np.where(chosen < _LATE[0], random.integers(0, _WAIT_MS, orders), 0)
        self._times = times - np.where(chosen < _LATE[1], random.integers(0, _HOUR_MS, orders), late)

    def case(self) -> Case:
        """What is done with them."""
        return Case(
            job=Path(__file__).with_name("windows_job.py"),
            program="Windows",
            source="orders",
            sink="hourly",
            batches=self._batches,
            records=len(self._ids),
            judge=self._judge,
        )

    def _batches(self, begin: int, end: int) -> Iterator[Sequence[Record]]:
        for part in slices(begin, end):
            columns = (self._ids[part].tolist(), self._amounts[part].tolist(), self._times[part].tolist())
            yield [
                {
                    "key": self._names[customer],
                    "value": f'{{"customer":"{self._names[customer]}","amount":{amount},"at":{at}}}',
                    "timestamp": at,
                }
                for customer, amount, at in zip(*columns, strict=True)
            ]

    @cached_property
    def _in_time(self) -> np.ndarray[Any, Any]:
        """Whether an order came before its hour was over. A partition's time is the greatest that it has had."""
        partitions = by_murmur2([name.encode() for name in self._names], PARTITIONS)[self._ids]
        starts = self._times // _HOUR_MS * _HOUR_MS
        in_time = np.zeros(len(self._ids), bool)
        for partition in range(PARTITIONS):
            rows = np.flatnonzero(partitions == partition)
            seen = np.maximum.accumulate(self._times[rows])
            in_time[rows] = starts[rows] + _HOUR_MS > seen - _WAIT_MS
        return in_time

    @cached_property
    def _hours_in_time(self) -> dict[tuple[str, int], tuple[int, int]]:
        return self._hours(self._in_time)

    @cached_property
    def _hours_of_all(self) -> dict[tuple[str, int], tuple[int, int]]:
        return self._hours(np.ones(len(self._ids), bool))

    def _hours(self, counted: np.ndarray[Any, Any]) -> dict[tuple[str, int], tuple[int, int]]:
        """By customer and hour, orders and spending of those orders that are counted."""
        starts = self._times // _HOUR_MS * _HOUR_MS
        keys, places = np.unique(np.stack([self._ids, starts])[:, counted], axis=1, return_inverse=True)
        numbers = np.bincount(places.ravel())
        sums = np.bincount(places.ravel(), weights=self._amounts[counted]).astype(np.int64)
        found = zip(*keys.tolist(), numbers.tolist(), sums.tolist(), strict=True)
        return {(self._names[customer], start): (number, spent) for customer, start, number, spent in found}

    def _judge(self, side: Side, records: Iterable[tuple[bytes, bytes]]) -> None:
        found = dict[tuple[str, int], tuple[int, int]]()
        for _, value in records:
            row = json.loads(value)
            found[row["customer"], _BEGIN_MS[side](row)] = (row["orders"], row["spent"])
        least = self._hours_in_time
        if side is not Side.FLINK:
            wrong = sum(found.get(key) != row for key, row in least.items()) + len(found.keys() - least.keys())
        else:
            # Its time is that of the partition that is behind: more may be in time; and what is not over is not there.
            most, over = self._hours_of_all, int(self._times.max()) - 3 * _HOUR_MS
            wrong = sum(not least.get(key, (0, 0)) <= row <= most.get(key, (0, 0)) for key, row in found.items())
            wrong += sum(key not in found for key in least if key[1] < over)
        if wrong:
            raise AssertionError(f"{wrong:,} of {len(least):,} customers' hours are wrong")


def _epoch_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


_BEGIN_MS: Final[Mapping[Side, Callable[[dict[str, Any]], int]]] = {
    Side.OURS: lambda row: _epoch_ms(row["window"]["start"]),
    Side.KAFKA_STREAMS: lambda row: int(row["start"]),
    Side.FLINK: lambda row: _epoch_ms(row["start"] + "Z"),
}
"""When the hour of a row began."""
