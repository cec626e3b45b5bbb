"""The visits to a site: a visitor's page views, until there was none for half an hour."""

from airflow_provider.streaming import StatefulJob, functions as F, run, session_window, stream

views = stream(
    "page-views",
    schema="visitor STRING, page STRING, ms BIGINT, at TIMESTAMP",
    key="visitor",
    event_time="at",
    watermark="5 minutes",
)
visits = (
    views.filter("page NOT LIKE '/health%'", name="health_checks")
    .group_by("visitor", session_window("at", "30 minutes"))
    .aggregate(F.count().alias("pages"), F.max("ms").alias("slowest_ms"), emit="close")
)

job = StatefulJob("visits", visits.sink("visits"))

if __name__ == "__main__":
    run(job)
