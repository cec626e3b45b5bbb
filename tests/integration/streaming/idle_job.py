"""A job that counts visits by windows, and closes them when a partition has no records."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, window
from airflow_provider.streaming import functions as F

STORE = "windows"

if __name__ == "__main__":
    (application_id,) = sys.argv[1:]
    run(
        StatefulJob(
            application_id,
            stream(
                f"{application_id}-orders",
                schema="account STRING, at BIGINT",
                event_time="at",
                watermark="0 seconds",
                idle_timeout="5 seconds",
            )
            .group_by("account", window("at", "20 seconds"), trust_partitioning=True)  # its records are spread by hand
            .aggregate(F.count().alias("n"), emit="close", name=STORE)
            .sink(f"{application_id}-totals"),
        )
    )
