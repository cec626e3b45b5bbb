"""Jobs whose steps the worker takes, through the tester: no JVM is started for them."""

from __future__ import annotations

from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.testing import JobTester

ORDERS = stream("orders", schema="customer STRING, amount DOUBLE, at TIMESTAMP", key="customer")


def test_rows_are_dropped_counted_and_computed() -> None:
    rows = (
        ORDERS.filter("amount IS NOT NULL", name="no_amount")
        .with_column("cents", "amount * 100")
        .filter("customer NOT LIKE 'test%' AND cents > 0", name="free")
        .select("customer", "cents", "at")
    )
    totals = rows.group_by("customer").aggregate(F.sum("cents").alias("spent"), F.max("at").alias("last"))
    at = "2026-01-31 12:00:00"
    with JobTester(StatefulJob("app", totals.sink("out"))) as tester:
        tester.pipe_inputs(
            [
                {"customer": "ann", "amount": 2, "at": at},
                {"customer": "ann", "amount": None},
                {"customer": "tester", "amount": 2},
                {"customer": "bob", "amount": 0},
                {"customer": "ann", "amount": 3, "at": "2026-01-31T14:00:00+01:00"},
            ]
        )

        assert tester.counts.filtered == {"no_amount": 1, "free": 2}
        assert [one.value for one in tester.read_output()][-1] == {
            "customer": "ann",
            "spent": 500.0,
            "last": "2026-01-31T13:00:00.000000Z",
        }
