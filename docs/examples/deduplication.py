"""Payments that were sent more than once, each once."""

from airflow_provider.streaming import StatefulJob, run, stream

payments = stream(
    "payments",
    schema="id STRING, account STRING, amount DECIMAL(10,2), at TIMESTAMP",
    key="id",
    event_time="at",
    watermark="10 minutes",
)
unique = payments.drop_duplicates("id", within="1 hour")

job = StatefulJob("deduplication", unique.sink("unique-payments")).on_error("dead_letter", topic="bad-payments")

if __name__ == "__main__":
    run(job)
