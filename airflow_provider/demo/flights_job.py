"""Per aircraft what it flew, and per airport and hour how many flights left, and how late."""

from airflow_provider.streaming import StatefulJob, run, stream, window
from airflow_provider.streaming import functions as F

flights = stream(
    "flights",
    schema="tailnum STRING, origin STRING, dest STRING, distance DOUBLE, dep_delay DOUBLE, time_hour TIMESTAMP",
    key="tailnum",
    event_time="time_hour",
    # The file has the months in the order of their names, 1, 10, 11, 12, 2: February comes when it is December. And a
    # year passes in two minutes, so what waits for seconds during the failover is weeks old.
    watermark="400 days",
)
aircraft = (
    flights.filter("tailnum IS NOT NULL", name="no_tail_number")
    .group_by("tailnum")
    .aggregate(
        F.count().alias("flights"),
        F.sum("distance").alias("distance"),
        F.sum("dep_delay").alias("dep_delay_sum"),
        F.max("dep_delay").alias("dep_delay_max"),
        F.last("dest").alias("last_dest"),
    )
)
airports = flights.group_by("origin", window("time_hour", "1 hour"), partitions=2).aggregate(
    F.count().alias("flights"), F.mean("dep_delay").alias("dep_delay_mean")
)
job = StatefulJob("flights", aircraft.sink("aircraft"), airports.sink("airports")).options(allow_faults=True)

if __name__ == "__main__":
    run(job)
