"""Aggregates per customer: the job that is measured. Its argument is the application id."""

import sys

from airflow_provider.streaming import StatefulJob, run
from airflow_provider.streaming import functions as F

job = (
    StatefulJob(sys.argv[1])
    .source("orders", schema="customer STRING, amount DOUBLE, quantity INT", max_offsets_per_trigger=400_000)
    .group_by("customer")
    .aggregate(F.count().alias("orders"), F.sum("amount").alias("amount"), F.max("amount").alias("largest"))
    .sink("spent")
)

if __name__ == "__main__":
    run(job)
