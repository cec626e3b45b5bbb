"""Orders of customers, whose countries another topic has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.benchmarks.case import Case, Record, Side, slices

__all__ = ["CustomerOrders"]


class CustomerOrders:
    """The orders, and their customers. One of a hundred is of a customer that nobody knows.

    Args:
        orders: how many.
        customers: that they are of, at random.
    """

    def __init__(self, orders: int, customers: int) -> None:
        random = np.random.default_rng(1)
        self._known = customers
        self._ids = random.integers(0, customers + customers // 100, orders)
        self._amounts = random.integers(1, 10_000, orders)
        self._names = [f"customer-{customer:08d}" for customer in range(customers + customers // 100)]
        self._countries = [f"country-{country}" for country in random.integers(0, 200, customers).tolist()]

    def case(self) -> Case:
        """What is done with them."""
        return Case(
            job=Path(__file__).with_name("joins_job.py"),
            program="Joins",
            source="orders",
            sink="enriched",
            internal={Side.OURS: "enriched-repartition"},
            batches=self._batches,
            records=len(self._ids),
            judge=self._judge,
            table=("customers", self._customers),
        )

    def spent(self) -> Case:
        """Aggregates of each customer."""
        return Case(
            job=Path(__file__).with_name("spent_job.py"),
            source="orders",
            sink="spent",
            batches=self._batches,
            records=len(self._ids),
            judge=self._judge_spent,
        )

    def _judge_spent(self, _: Side, records: Iterable[tuple[bytes, bytes]]) -> None:
        rows = {key.decode(): json.loads(value) for key, value in dict(records).items()}
        found = {customer: (row["orders"], row["spent"], row["largest"]) for customer, row in rows.items()}
        number = len(self._names)
        largest = np.zeros(number, np.int64)
        np.maximum.at(largest, self._ids, self._amounts)
        columns = (
            np.bincount(self._ids, minlength=number),
            np.bincount(self._ids, weights=self._amounts, minlength=number).astype(np.int64),
            largest,
        )
        of_all = zip(*(column.tolist() for column in columns), strict=True)
        wanted = {name: row for name, row in zip(self._names, of_all, strict=True) if row[0]}
        if found != wanted:
            wrong = sum(found.get(name) != row for name, row in wanted.items())
            raise AssertionError(f"{wrong:,} of {len(wanted):,} customers are wrong")

    def _customers(self) -> Iterator[Sequence[Record]]:
        for part in slices(0, self._known):
            yield [
                {"key": name, "value": f'{{"customer":"{name}","country":"{country}"}}'}
                for name, country in zip(self._names[part], self._countries[part], strict=False)
            ]

    def _batches(self, begin: int, end: int) -> Iterator[Sequence[Record]]:
        for part in slices(begin, end):
            columns = (range(part.start, part.stop), self._ids[part].tolist(), self._amounts[part].tolist())
            yield [
                {
                    "key": self._names[customer],
                    "value": f'{{"id":{order},"customer":"{self._names[customer]}","amount":{amount}}}',
                }
                for order, customer, amount in zip(*columns, strict=True)
            ]

    def _judge(self, side: Side, records: Iterable[tuple[bytes, bytes]]) -> None:
        customers, amounts = self._ids.tolist(), self._amounts.tolist()
        seen = np.zeros(len(customers), np.int64)
        for _, value in records:
            row = json.loads(value)
            order, country = row["id"], None if customers[row["id"]] >= self._known else customers[row["id"]]
            wanted = {
                "customer": self._names[customers[order]],
                "id": order,
                "amount": amounts[order],
                "country": None if country is None else self._countries[country],
            }
            if row != wanted:
                raise AssertionError(f"the order {order} came out as {row}, not as {wanted}")
            seen[order] += 1
        if not (seen == 1).all():
            raise AssertionError(f"{int((seen != 1).sum()):,} of {len(seen):,} orders did not come out once")
