"""Word count in several versions: how often each word is there; then also its length, and the words of each letter.

Arguments: the application id, and the version.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

PARTITIONS = 3
"""Of the first internal topic; the second has as many as the lines."""
LENGTHS = {"as-text": "CAST(length(word) AS STRING)"}
"""Which only Spark knows to be of another type."""


def job_of(application_id: str, version: str) -> StatefulJob:
    """A version of the job: ``first``, ``grown``, ``turned``, ``shortest`` or ``as-text``.

    Each but the first has all stages, the turned one in another order.
    """
    words = (
        stream(f"{application_id}-lines", schema="line STRING")
        .select("explode(split(line, ' ')) AS word")
        .filter("word <> ''", name="empty")
        .with_column("length", LENGTHS.get(version, "length(word)"))
    )
    counted = F.count().alias("count")
    length = (F.min if version == "shortest" else F.max)("length").alias("length")
    aggregates = [counted] if version == "first" else [counted, length]
    counts = words.group_by("word", partitions=PARTITIONS).aggregate(*aggregates, name="counts")
    by_letter = words.with_column("letter", "left(word, 1)").group_by("letter")
    letters = by_letter.aggregate(counted, name="letters")
    sinks = [counts.sink(f"{application_id}-word-counts"), letters.sink(f"{application_id}-letter-counts")]
    return StatefulJob(application_id, *{"first": sinks[:1], "turned": sinks[::-1]}.get(version, sinks))


if __name__ == "__main__":
    run(job_of(*sys.argv[1:]))
