"""Per aircraft: its flights, the miles, the departure delay and where it went last."""

from airflow_provider.streaming import StatefulJob, run
from airflow_provider.streaming import functions as F

job = (
    StatefulJob("flights")
    .source("flights", schema="tailnum STRING, distance DOUBLE, dep_delay DOUBLE, dest STRING")
    .filter("tailnum IS NOT NULL", name="no_tail_number")
    .group_by("tailnum")
    .aggregate(
        F.count().alias("flights"),
        F.sum("distance").alias("distance"),
        F.sum("dep_delay").alias("dep_delay_sum"),
        F.max("dep_delay").alias("dep_delay_max"),
        F.last("dest").alias("last_dest"),
    )
    .sink("aircraft")
    .options(allow_faults=True)
)

if __name__ == "__main__":
    run(job)
