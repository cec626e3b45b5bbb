"""Payments with the customer's country, by a table of customers; or with all that is known by several tables.

Arguments: the application id, and words: `several` for several tables, `workers` where those read the sources.
"""

import sys

from airflow_provider.streaming import StatefulJob, run, stream, table


def job_of(application_id: str, several: bool = False) -> StatefulJob:
    """The job: stage 0 brings the payments, stage 1 the customers, stage 2 joins them.

    Args:
        application_id: prefixes its topics.
        several: the customers are a join of two tables, and a second join is with the payments themselves as a table.
    """
    payments = stream(f"{application_id}-payments", schema="id BIGINT, customer STRING")
    customers = table(f"{application_id}-customers", schema="customer STRING, country STRING", key="customer")
    if not several:
        joined = payments.join(customers, on="customer", how="left", name="located")
        return StatefulJob(application_id, joined.sink(f"{application_id}-located"))
    grades = table(f"{application_id}-grades", schema="customer STRING, grade STRING", key="customer")
    newest = table(f"{application_id}-payments", schema="customer STRING, newest BIGINT", key="customer")
    known = payments.join(customers.join(grades, on="customer", name="graded"), on="customer", how="left", name="known")
    joined = known.join(newest, on="customer", how="left", name="located")
    return StatefulJob(application_id, joined.sink(f"{application_id}-located"))


if __name__ == "__main__":
    run(job_of(sys.argv[1], several="several" in sys.argv).options(worker_reads="workers" in sys.argv))
