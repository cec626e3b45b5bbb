"""How many orders each customer made, and what they spent: the job of the example application."""

from airflow_provider.streaming import StatefulJob, functions as F, run, stream

orders = stream("orders", schema="customer STRING, amount DOUBLE", key="customer")
totals = orders.group_by("customer").aggregate(F.count().alias("orders"), F.sum("amount").alias("spent"))

job = StatefulJob("customer-totals", totals.sink("customer-totals-out")).options(allow_faults=True)

if __name__ == "__main__":
    run(job)
