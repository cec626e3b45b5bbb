"""A job whose restores are shared by Spark tasks from a lag on that a test can write. Its argument is its id.

The rate keeps the slot from being done with it all before anybody can share.
"""

import sys

from airflow_provider.streaming import RestoreSettings, StatefulJob, run
from airflow_provider.streaming import functions as F

job = (
    StatefulJob(sys.argv[1])
    .source(f"{sys.argv[1]}-source")
    .group_by("key")
    .aggregate(F.count().alias("n"))
    .options(
        restore=RestoreSettings(parallelism=2, parallel_from_records=2_000, range_records=900, max_bytes_per_s=20_000)
    )
)

if __name__ == "__main__":
    run(job)
