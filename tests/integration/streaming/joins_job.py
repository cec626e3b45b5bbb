"""Orders with their customers, and impressions with their clicks: two joins in one job.

An order waits for its customer, in a table that each task has in full.

Arguments: the application id.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, table

PARTITIONS = 2
"""Of the joins."""
WITHIN_MS = 10_000
GRACE_MS = 3_600_000


def job_of(application_id: str) -> StatefulJob:
    """The job."""
    orders = stream(f"{application_id}-purchases", schema="id BIGINT, customer STRING, amount DECIMAL(12,2)")
    customers = table(
        f"{application_id}-customers", schema="customer STRING, country STRING", key="customer", broadcast=True
    )
    enriched = orders.filter("amount > 0", name="free").join(
        customers, on="customer", how="left", grace=f"{GRACE_MS} milliseconds", name="enriched", partitions=PARTITIONS
    )
    shown = stream(
        f"{application_id}-impressions", schema="ad STRING, shown BIGINT", event_time="shown", watermark="1 hour"
    )
    clicks = stream(
        f"{application_id}-clicks", schema="ad STRING, clicked TIMESTAMP", event_time="clicked", watermark="1 hour"
    )
    attributed = shown.join(
        clicks, on="ad", how="left", after=f"{WITHIN_MS} milliseconds", name="attributed", partitions=PARTITIONS
    )
    return StatefulJob(
        application_id,
        enriched.sink(f"{application_id}-enriched"),
        attributed.sink(f"{application_id}-attributed"),
    ).options(max_offsets_per_trigger=2_000)


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
