"""Aggregates per customer: the job that is measured. Its argument is the application id."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

job = StatefulJob(
    sys.argv[1],
    stream("orders", schema="customer STRING, amount DOUBLE, quantity INT", key="customer")
    .group_by("customer")
    .aggregate(
        F.count().alias("orders"), F.sum("amount").alias("amount"), F.max("amount").alias("largest"), name="state"
    )
    .sink("spent"),
).options(max_offsets_per_trigger=400_000)

if __name__ == "__main__":
    run(job)
