"""A job whose one task's restore is shared by as many Spark tasks as the last part of its id says: ``restore-2``."""

import sys

from airflow_provider.streaming import RestoreSettings, StatefulJob, run
from airflow_provider.streaming import functions as F

job = (
    StatefulJob(sys.argv[1])
    .source("source")
    .group_by("key")
    .aggregate(F.count().alias("n"))
    .options(restore=RestoreSettings(parallelism=int(sys.argv[1].rpartition("-")[2]), parallel_from_records=100_000))
)

if __name__ == "__main__":
    run(job)
