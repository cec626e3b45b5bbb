"""Orders and spending per customer and hour. Arguments: the application id."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, window
from airflow_provider.streaming import functions as F


def job_of(application_id: str) -> StatefulJob:
    """The job."""
    orders = stream(
        f"{application_id}-orders",
        schema="customer STRING, amount BIGINT, at BIGINT",
        key="customer",
        event_time="at",
        watermark="10 minutes",
    )
    hourly = orders.group_by("customer", window("at", "1 hour")).aggregate(
        F.count().alias("orders"), F.sum("amount").alias("spent"), name="hourly"
    )
    return StatefulJob(application_id, hourly.sink(f"{application_id}-hourly")).options(max_offsets_per_trigger=400_000)


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
