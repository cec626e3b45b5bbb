"""Jobs that the tests of the tester pipe records through."""

from __future__ import annotations

from airflow_provider.streaming import StatefulJob, ValueState, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table
from tests.builders import job_of_result

Row = dict[str, object]

SCHEMA = "customer STRING, amount DOUBLE"
ORDERS = stream("orders", schema=SCHEMA, key="customer").group_by("customer")
ANYWHERE = stream("orders", schema=SCHEMA).group_by("customer", trust_partitioning=True)
"""Whose records a test may put into any partition."""


def of_orders(result: Stream | Table, sink: str | None = "out", store: str = "state") -> StatefulJob:
    return job_of_result(result, "orders", sink, store)


TOTALS = of_orders(ORDERS.aggregate(F.count().alias("orders"), F.sum("amount").alias("spent")), sink="totals")


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


LARGEST = of_orders(ORDERS.process(largest, ["amount"]), sink="largest")
LARGEST_ANYWHERE = of_orders(ANYWHERE.process(largest, ["amount"]), sink="largest")


def order(customer: str | None, amount: float) -> Row:
    return {"customer": customer, "amount": amount}
