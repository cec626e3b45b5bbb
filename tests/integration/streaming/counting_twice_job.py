"""A job of two sinks that read one topic, each by a stage of its own: a task of each stage reads a partition."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

if __name__ == "__main__":
    (application_id,) = sys.argv[1:]
    orders = stream(f"{application_id}-orders", schema="account STRING, amount BIGINT")
    accounts = orders.group_by("account", trust_partitioning=True)  # its records are spread by hand
    run(
        StatefulJob(
            application_id,
            accounts.aggregate(F.count().alias("n"), name="state").sink(f"{application_id}-totals"),
            accounts.aggregate(F.sum("amount").alias("sum"), name="sums").sink(f"{application_id}-sums"),
        )
    )
