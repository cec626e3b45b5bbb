"""What each shop took in each hour: one record, when the hour is over."""

from airflow_provider.streaming import StatefulJob, functions as F, run, stream, window

orders = stream(
    "orders",
    schema="shop STRING, amount DECIMAL(10,2), at TIMESTAMP",
    key="shop",  # of the records, too: so no way through an internal topic
    event_time="at",
    watermark="10 minutes",  # for so long an hour waits for orders that come late
)
totals = orders.group_by("shop", window("at", "1 hour")).aggregate(
    F.count().alias("orders"), F.sum("amount").alias("total"), emit="close"
)

job = StatefulJob("hourly-totals", totals.sink("shop-totals"))

if __name__ == "__main__":
    run(job)
