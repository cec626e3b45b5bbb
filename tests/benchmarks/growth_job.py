"""Keeps the greatest text of each customer's orders, so that the state is as large as they. Its argument is its id."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

job = StatefulJob(
    sys.argv[1],
    stream("orders", schema="customer STRING, at BIGINT, text STRING", key="customer")
    .group_by("customer")
    .aggregate(F.max("at").alias("at"), F.count().alias("orders"), F.max("text").alias("text"), name="state")
    .sink("newest"),
)

if __name__ == "__main__":
    run(job)
