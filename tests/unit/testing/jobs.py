"""Jobs that the tests of the tester pipe records through."""

from __future__ import annotations

from airflow_provider.streaming import StatefulJob, ValueState
from airflow_provider.streaming import functions as F

Row = dict[str, object]

ORDERS = StatefulJob("orders").source("orders", schema="customer STRING, amount DOUBLE").group_by("customer")

TOTALS = ORDERS.aggregate(F.count().alias("orders"), F.sum("amount").alias("spent")).sink("totals")


def largest(key: str, rows: list[Row], state: ValueState) -> list[Row]:
    """Keeps the two largest amounts; raises for a negative one, and forgets the customer at 0."""
    kept = state.get() or []
    for row in rows:
        amount = row["amount"]
        assert isinstance(amount, float)
        if amount < 0:
            raise ValueError(f"{amount:g} is negative")
        kept = sorted([*kept, amount], reverse=True)[:2] if amount else []
    if kept:
        state.update(kept)
    else:
        state.clear()
    return [{"largest": kept}]


LARGEST = ORDERS.process(largest, ["amount"]).sink("largest")

ANYWHERE = LARGEST.group_by("customer", trust_partitioning=True)
"""Whose records a test may put into any partition."""


def order(customer: str | None, amount: float) -> Row:
    return {"customer": customer, "amount": amount}
