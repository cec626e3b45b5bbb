"""Visits of pages, counted by page and ten seconds: a job of two stages whose second keeps windows.

Arguments: the application id.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, window
from airflow_provider.streaming import functions as F

PARTITIONS = 2
"""Of the repartition topic."""
WINDOW_MS = 10_000


def job_of(application_id: str) -> StatefulJob:
    """The job."""
    visits = stream(
        f"{application_id}-visits", schema="page STRING, at BIGINT", event_time="at", watermark="20 seconds"
    )
    counts = visits.group_by("page", window("at", f"{WINDOW_MS} milliseconds"), partitions=PARTITIONS).aggregate(
        F.count().alias("n"), name="pages"
    )
    job = StatefulJob(application_id, counts.sink(f"{application_id}-page-counts"))
    return job.on_error("dead_letter", topic=f"{application_id}-errors")


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
