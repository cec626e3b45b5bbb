"""Aggregates per customer: the job that is measured. Its arguments are the application id, and a name of `JOBS`."""

import sys
from collections.abc import Callable

from airflow_provider.streaming import StatefulJob, Stream, run, stream
from airflow_provider.streaming import functions as F

JOBS: dict[str, Callable[[Stream], Stream]] = {
    "plain": lambda rows: rows,
    "steps": lambda rows: rows.filter("quantity >= 0", name="none").with_column("amount", "amount * 1.0"),
    # The same to the value, and nothing that the worker takes.
    "steps-in-spark": lambda rows: rows.filter("quantity >= sign(0)", name="none").with_column(
        "amount", "amount * 1.0"
    ),
}
"""By name, what comes before the aggregate."""


def job_of(application_id: str, name: str = "plain", worker_reads: bool = True) -> StatefulJob:
    """The job.

    Args:
        name: of `JOBS`.
        worker_reads: as `StatefulJob.options` has it.
    """
    rows = JOBS[name](stream("orders", schema="customer STRING, amount DOUBLE, quantity INT", key="customer"))
    spent = rows.group_by("customer").aggregate(
        F.count().alias("orders"), F.sum("amount").alias("amount"), F.max("amount").alias("largest"), name="state"
    )
    job = StatefulJob(application_id, spent.sink("spent"))
    return job.options(max_offsets_per_trigger=400_000, worker_reads=worker_reads)


if __name__ == "__main__":
    id_, *words = sys.argv[1:]
    run(job_of(id_, words[0] if words else "plain", worker_reads="spark-reads" not in words))
