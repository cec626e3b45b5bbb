"""A job in several versions: the second argument names the one that runs. Spark decodes its values."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

N, TOTAL, MOST, LAST = (
    F.count().alias("n"),
    F.sum("cents").alias("total"),
    F.max("cents").alias("most"),
    F.last("account").alias("last"),
)
VERSIONS = {
    "first": [N, TOTAL, LAST],
    "grown": [N, TOTAL, MOST, LAST],
    "swapped": [F.sum("cents").alias("n"), F.count().alias("total"), LAST],
}

if __name__ == "__main__":
    application_id, version = sys.argv[1:]
    run(
        StatefulJob(
            application_id,
            stream(f"{application_id}-orders", schema="account STRING, amount BIGINT")
            .with_column("cents", "amount * 100")
            .group_by("acount" if version == "misspelt" else "account", trust_partitioning=True)
            .aggregate(*VERSIONS.get(version, VERSIONS["first"]), name="state")
            .sink(f"{application_id}-totals"),
        )
    )
