"""Keeps the time of the newest order of each customer: what comes out says when it went in.

Its arguments are its id and, for others than `orders` and `newest`, its two topics.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

id_, *topics = sys.argv[1:]
source, sink = topics or ("orders", "newest")
job = StatefulJob(
    id_,
    stream(source, schema="customer STRING, at BIGINT", key="customer")
    .group_by("customer")
    .aggregate(F.max("at").alias("at"), F.count().alias("orders"), name="state")
    .sink(sink),
)

if __name__ == "__main__":
    run(job)
