"""Payments with the customer's country, by a table of customers.

Arguments: the application id.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, table


def job_of(application_id: str) -> StatefulJob:
    """The job: stage 0 brings the payments, stage 1 the customers, stage 2 joins them."""
    payments = stream(f"{application_id}-payments", schema="id BIGINT, customer STRING")
    customers = table(f"{application_id}-customers", schema="customer STRING, country STRING", key="customer")
    joined = payments.join(customers, on="customer", how="left", name="located")
    return StatefulJob(application_id, joined.sink(f"{application_id}-located"))


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
