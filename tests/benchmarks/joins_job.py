"""Orders with their customers' countries. Arguments: the application id."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, table


def job_of(application_id: str) -> StatefulJob:
    """The job."""
    orders = stream(f"{application_id}-orders", schema="id BIGINT, customer STRING, amount BIGINT", key="customer")
    customers = table(f"{application_id}-customers", schema="customer STRING, country STRING", key="customer")
    enriched = orders.join(customers, on="customer", how="left", name="enriched")
    return StatefulJob(application_id, enriched.sink(f"{application_id}-enriched")).options(
        max_offsets_per_trigger=400_000
    )


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
