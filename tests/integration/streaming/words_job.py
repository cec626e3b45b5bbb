"""Word count twice, each in two stages: the words of each line, and how often each was there.

One combines the words of a micro-batch before the repartition, the other sends each. Arguments: the application id.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

PARTITIONS = 3
"""Of the repartition topic."""


COUNTS = {"combined": True, "each-row": False}
"""By name of each count, whether it combines."""


def job_of(application_id: str) -> StatefulJob:
    """The job."""
    words = (
        stream(f"{application_id}-lines", schema="line STRING")
        .select("explode(split(line, ' ')) AS word")
        .filter("word <> ''", name="empty")
        .with_column("long", "length(word)")
    )
    results = (F.count().alias("count"), F.max("long").alias("long"))
    sinks = [
        words.group_by("word", partitions=PARTITIONS)
        .aggregate(*results, name=name, combine=combine)
        .sink(f"{application_id}-{name}-counts")
        for name, combine in COUNTS.items()
    ]
    return StatefulJob(application_id, *sinks).options(max_offsets_per_trigger=2_000)


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
