"""Word count as a job of two stages: the words of each line, and how often each was there.

Arguments: the application id, and whether to combine before the repartition.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

PARTITIONS = 3
"""Of the repartition topic."""


def job_of(application_id: str, combine: bool) -> StatefulJob:
    """The job."""
    words = (
        stream(f"{application_id}-lines", schema="line STRING")
        .select("explode(split(line, ' ')) AS word")
        .filter("word <> ''", name="empty")
        .with_column("long", "length(word)")
    )
    counts = words.group_by("word", partitions=PARTITIONS).aggregate(
        F.count().alias("count"), F.max("long").alias("long"), name="counts", combine=combine
    )
    job = StatefulJob(application_id, counts.sink(f"{application_id}-word-counts"))
    return job.options(max_offsets_per_trigger=2_000)


if __name__ == "__main__":
    run(job_of(sys.argv[1], combine=sys.argv[2] == "combined"))
