"""Orders and spending per customer. Arguments: the application id."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F


def job_of(application_id: str) -> StatefulJob:
    """The job."""
    orders = stream(f"{application_id}-orders", schema="customer STRING, amount BIGINT", key="customer")
    spent = orders.group_by("customer").aggregate(
        F.count().alias("orders"), F.sum("amount").alias("spent"), F.max("amount").alias("largest"), name="state"
    )
    return StatefulJob(application_id, spent.sink(f"{application_id}-spent")).options(max_offsets_per_trigger=400_000)


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
