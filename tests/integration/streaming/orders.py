"""The records of these tests, the operation on them, and what it has to come to in plain Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider.streaming.operations.process import ValueState


@dataclass(frozen=True)
class Order:
    offset: int
    customer: str | None
    amount: int
    corrupt: bool = False


def random_orders(seed: int, number: int, customers: int = 12, prefix: str = "c") -> list[Order]:
    """Orders at growing offsets, some of them missing as a transaction's control records are."""
    print(f"orders with seed {seed}")
    chance = random.Random(seed)
    offsets = sorted(chance.sample(range(2 * number), number))
    return [Order(offset, f"{prefix}{chance.randrange(customers)}", chance.randrange(1000)) for offset in offsets]


def running_totals(key: str, rows: list[dict[str, Any]], state: ValueState) -> Iterator[dict[str, Any]]:
    """One output for every order, so that one too many or too few cannot hide."""
    totals = state.get() or {"count": 0, "sum": 0}
    for row in rows:
        totals = {"count": totals["count"] + 1, "sum": totals["sum"] + row["amount"]}
        yield totals
    state.update(totals)


def forget_on_zero(key: str, rows: list[dict[str, Any]], state: ValueState) -> None:
    """Keeps the last amount; an amount of zero deletes the customer."""
    last = rows[-1]["amount"]
    if last == 0:
        state.clear()
    else:
        state.update(last)


def expected_outputs(orders: Sequence[Order]) -> dict[str, list[dict[str, Any]]]:
    """What `running_totals` puts out, by customer, in order."""
    outputs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for order in orders:
        before = outputs[str(order.customer)][-1:] or [{"count": 0, "sum": 0}]
        outputs[str(order.customer)].append(
            {
                "customer": order.customer,
                "count": before[0]["count"] + 1,
                "sum": before[0]["sum"] + order.amount,
            }
        )
    return dict(outputs)


def batches_of(orders: Sequence[Order], size: int) -> list[list[Order]]:
    return [list(orders[at : at + size]) for at in range(0, len(orders), size)]


def table(*parts: tuple[int, Sequence[Order]]) -> pa.Table:
    """A micro-batch as Spark delivers it: one task's rows after the other's."""
    rows = [(task, order) for task, orders in parts for order in orders]
    keys = pa.array([None if o.customer is None else o.customer.encode() for _, o in rows], pa.binary())
    return pa.table(
        {
            "__partition": pa.array([task for task, _ in rows], pa.int32()),
            "__offset": pa.array([o.offset for _, o in rows], pa.int64()),
            "__source_key": keys,
            "__filtered": pa.nulls(len(rows), pa.int32()),
            "__corrupt": pa.array(["not JSON" if o.corrupt else None for _, o in rows], pa.string()),
            "__key": keys,
            "amount": pa.array([o.amount for _, o in rows], pa.int64()),
        }
    )


def record_batches(*parts: tuple[int, Sequence[Order]]) -> list[pa.RecordBatch]:
    """`table`, in pieces."""
    batches: list[pa.RecordBatch] = table(*parts).to_batches()
    return batches
