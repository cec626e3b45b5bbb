"""Purchases in versions: how many each customer made; then also how large, and each with the customer's country.

Arguments: the application id, and the version.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, table
from airflow_provider.streaming import functions as F

PARTITIONS = 2
"""Of every internal topic."""


def job_of(application_id: str, version: str) -> StatefulJob:
    """A version of the job: ``first``, ``changed`` in four places, or ``inside``: the join is in the middle."""
    purchases = stream(f"{application_id}-purchases", schema="id BIGINT, customer STRING, amount BIGINT")
    paid = purchases.filter("amount > 0" if version == "first" else "amount > 5", name="small")
    customers = table(f"{application_id}-customers", schema="customer STRING, country STRING", key="customer")
    placed = paid.join(customers, on="customer", how="left", name="placed", partitions=PARTITIONS)
    counted = (placed if version == "inside" else paid).group_by("customer", partitions=PARTITIONS)
    aggregates = [F.count().alias("n"), F.max("amount").alias("largest")]
    totals = counted.aggregate(*(aggregates[:1] if version == "first" else aggregates), name="totals")
    sinks = [totals.sink(f"{application_id}-sums"), placed.sink(f"{application_id}-placed")]
    return StatefulJob(application_id, *(sinks[:1] if version == "first" else sinks))


if __name__ == "__main__":
    run(job_of(*sys.argv[1:]))
