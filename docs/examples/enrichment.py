"""Purchases with the country that their customer lived in at the time."""

from airflow_provider.streaming import StatefulJob, run, stream, table

purchases = stream(
    "purchases",
    schema="id BIGINT, customer STRING, amount DECIMAL(10,2), at TIMESTAMP",
    event_time="at",
    watermark="1 hour",
)
customers = table(
    "customers",  # a customer who moves gets another record; its key is the customer
    schema="customer STRING, country STRING, since TIMESTAMP",
    key="customer",
    event_time="since",
)
enriched = purchases.join(customers, on="customer", how="left", history="520 weeks")

job = StatefulJob("enrichment", enriched.sink("enriched-purchases"))

if __name__ == "__main__":
    run(job)
