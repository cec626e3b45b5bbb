"""Rides by hour, and of these by day: windows of windows, each behind an internal topic.

Arguments: the application id.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, window
from airflow_provider.streaming import functions as F

PARTITIONS = 2
"""Of the source, and of all internal topics."""


def job_of(application_id: str) -> StatefulJob:
    """The job."""
    rides = stream(f"{application_id}-rides", schema="city STRING, at BIGINT", event_time="at", watermark="10 minutes")
    hourly = rides.group_by("city", window("at", "1 hour")).aggregate(
        F.count().alias("rides"), emit="close", name="hourly"
    )
    daily = hourly.group_by("city", window("window", "1 day")).aggregate(
        F.sum("rides").alias("rides"), emit="close", name="daily"
    )
    return StatefulJob(application_id, daily.sink(f"{application_id}-daily"))


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
