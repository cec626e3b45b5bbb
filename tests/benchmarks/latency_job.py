"""Keeps the time of the newest order of each customer: what comes out says when it went in. Its argument is its id."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

job = StatefulJob(
    sys.argv[1],
    stream("orders", schema="customer STRING, at BIGINT", key="customer")
    .group_by("customer")
    .aggregate(F.max("at").alias("at"), F.count().alias("orders"), name="state")
    .sink("newest"),
)

if __name__ == "__main__":
    run(job)
