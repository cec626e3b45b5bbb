"""Word count over lines of text. Arguments: the application id, and ``combined`` or ``each-row``."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F


def job_of(application_id: str, combine: bool) -> StatefulJob:
    """The job.

    Args:
        application_id: prefixes its topics.
        combine: before the repartition.
    """
    words = (
        stream(f"{application_id}-lines")
        .select("explode(split(lower(CAST(value AS STRING)), '[^a-z]+')) AS word")
        .filter("word <> ''", name="empty")
    )
    counts = words.group_by("word").aggregate(F.count().alias("count"), name="words", combine=combine)
    return StatefulJob(application_id, counts.sink(f"{application_id}-counts"))


if __name__ == "__main__":
    run(job_of(sys.argv[1], combine=sys.argv[2] == "combined"))
