"""A job of stages in two versions: the words of each line counted; then also the longest, and the words by letter.

Arguments: the application id, and the version.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

PARTITIONS = 3
"""Of the first repartition topic; the second has as many as the lines."""
VERSIONS = ("first", "grown")


def job_of(application_id: str, version: str) -> StatefulJob:
    """A version of the job."""
    words = (
        stream(f"{application_id}-lines", schema="line STRING")
        .select("explode(split(line, ' ')) AS word")
        .filter("word <> ''", name="empty")
        .with_column("length", "length(word)")
    )
    counted, by_letter = F.count().alias("count"), words.with_column("letter", "left(word, 1)").group_by("letter")
    grown = version == "grown"
    aggregates = [counted, F.max("length").alias("longest")] if grown else [counted]
    counts = words.group_by("word", partitions=PARTITIONS).aggregate(*aggregates, name="counts")
    letters = by_letter.aggregate(counted, name="letters")
    sinks = [counts.sink(f"{application_id}-word-counts"), letters.sink(f"{application_id}-letter-counts")]
    return StatefulJob(application_id, *(sinks if grown else sinks[:1]))


if __name__ == "__main__":
    run(job_of(*sys.argv[1:]))
