"""Joins of rows that Spark decodes: steps before and behind, types that the worker does not read, deletions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.testing.script_results import script_results

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

SCRIPT = """
import dataclasses, json, sys
from pyspark.sql import SparkSession
from airflow_provider.streaming import StatefulJob, functions as F, stream, table
from airflow_provider.testing import InputRecord, JobTester

SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate().conf.set(
    "spark.sql.session.timeZone", "UTC"
)
orders = stream("orders", schema="customer STRING, amount DECIMAL(8,2), at TIMESTAMP")
customers = table("customers", schema="customer STRING, country STRING, credit DECIMAL(8,2)", key="customer")
dear = orders.filter("amount > 1", name="cheap").select("customer", "amount * 2 AS twice", "at")
joined = dear.join(customers, on="customer", how="left").with_column("place", "coalesce(country, '?')")
job = StatefulJob(
    "shop",
    joined.group_by("place").aggregate(F.sum("twice").alias("spent"), F.max("credit").alias("credit")).sink("spent"),
    dear.join(customers, on="customer").sink("enriched"),
)
def order(customer, amount):
    return InputRecord({"customer": customer, "amount": amount, "at": "2026-01-31T12:00:00Z"}, topic="orders")
def customer(name, country):
    value = None if country is None else {"customer": name, "country": country, "credit": 1.5}
    return InputRecord(value, topic="customers", key=name)
with JobTester(job) as tester:
    tester.pipe_inputs([customer("ann", "AT"), order("ann", 5.25), order("bob", 3), order("ann", 1), order(None, 7)])
    tester.pipe_inputs([customer("ann", None), order("ann", 2)])
    results = {
        "states": tester.states("spent"),
        "enriched": [(r.key, r.value) for r in tester.read_output("enriched")],
        "filtered": tester.counts.filtered,
    }
json.dump(results, open(sys.argv[1], "w"), default=str)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    read, _ = script_results(SCRIPT, tmp_path_factory.mktemp("results"))
    return read


def test_steps_before_and_behind_a_join(results: dict[str, Any]) -> None:
    assert results["states"] == {
        "?": {"spent": "24.00", "credit": None},
        "AT": {"spent": "10.50", "credit": "1.50"},
    }


def test_values_go_through_a_join_as_they_are(results: dict[str, Any]) -> None:
    row = {"customer": "ann", "twice": 10.5, "at": "2026-01-31T12:00:00.000000Z", "country": "AT", "credit": 1.5}
    assert results["enriched"] == [["ann", row]]


def test_rows_that_are_dropped_are_counted_by_their_names(results: dict[str, Any]) -> None:
    # Each of the two joins counts its own.
    assert results["filtered"] == {"cheap": 2, "no_customer": 1}
