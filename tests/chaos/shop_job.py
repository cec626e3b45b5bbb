"""A job of several stages under chaos: windows and sums of them, duplicates, sessions and sums behind an internal
topic, three joins, and timers.

What comes of it depends on the order of records only where one partition decides it. Started with the name of a
variant, it is a job that cannot start.
"""

import sys
from typing import Any, Final

from airflow_provider.streaming import StatefulJob, run, session_window, stream, table, value_state, window
from airflow_provider.streaming import functions as F

APPLICATION: Final = "shop"
WINDOW_MS: Final = 10_000
WATERMARK_MS: Final = 5_000
"""Of what is not behind an internal topic: records later than that are dropped."""
UNIQUE_MS: Final = 3_000
GAP_MS: Final = 2_000
CLICK_MS: Final = 10_000
REVIEW_MS: Final = 15_000
"""So long after each order a customer's orders are looked at."""
JOINED: Final = 2
"""Partitions of the internal topics."""

_PATIENT: Final = "30 minutes"
"""Longer than any partition may be behind the others, so that nothing is late."""
_ORDER: Final = "id BIGINT, customer STRING, product STRING, amount BIGINT, at BIGINT"


def on_order(customer: str, rows: list[Any], state: Any) -> None:
    """Count it, and look again later."""
    (row,) = rows
    state.orders.update((state.orders.get() or 0) + 1)
    state.spent.update((state.spent.get() or 0) + row["amount"])
    state.timers.at(row["at"] + REVIEW_MS)


def on_review(customer: str, time_ms: int, state: Any) -> list[dict[str, Any]]:
    """What came until then."""
    return [{"at": time_ms, "orders": state.orders.get(), "spent": state.spent.get()}]


def job_of(column: str = "customer") -> StatefulJob:
    """The job."""
    strict = stream(
        "shop-orders", schema=_ORDER, key="customer", event_time="at", watermark=f"{WATERMARK_MS} milliseconds"
    )
    orders = stream("shop-orders", schema=_ORDER, key="customer", event_time="at", watermark=_PATIENT)
    customers = table("shop-customers", schema="customer STRING, version BIGINT", key="customer")
    shown = stream("shop-impressions", schema="ad STRING, shown BIGINT", event_time="shown", watermark=_PATIENT)
    clicks = stream("shop-clicks", schema="ad STRING, clicked BIGINT", event_time="clicked", watermark=_PATIENT)
    number, total = F.count().alias("number"), F.sum("amount").alias("total")

    by_window = strict.group_by(column, window("at", f"{WINDOW_MS} milliseconds")).aggregate(
        number, total, F.min("amount").alias("least"), F.max("id").alias("greatest"), emit="close"
    )
    sizes = by_window.group_by("number", partitions=JOINED).aggregate(
        F.count().alias("windows"), F.sum("total").alias("total")
    )
    reviews = strict.group_by("customer").process(
        on_order,
        columns=["amount", "at"],
        schema="at BIGINT, orders BIGINT, spent BIGINT",
        stores=[value_state("orders"), value_state("spent")],
        on_timer=on_review,
    )
    unique = strict.filter("amount > 0", name="free").drop_duplicates("customer", within=f"{UNIQUE_MS} milliseconds")
    sessions = orders.group_by("product", session_window("at", f"{GAP_MS} milliseconds"), partitions=JOINED).aggregate(
        number, total
    )
    attributed = shown.join(
        clicks, on="ad", how="left", after=f"{CLICK_MS} milliseconds", partitions=JOINED, name="attributed"
    )
    enriched = stream("shop-orders", schema=_ORDER, key="customer").join(
        customers, on="customer", how="left", partitions=JOINED, name="enriched"
    )
    of_their_time = table(
        "shop-versions",
        schema="customer STRING, version BIGINT, changed BIGINT",
        key="customer",
        event_time="changed",
        watermark=f"{WATERMARK_MS} milliseconds",
    )
    stamped = strict.join(of_their_time, on="customer", how="left", partitions=JOINED, name="stamped")
    products = orders.group_by("product", partitions=1).aggregate(
        number, total, F.max("id").alias("greatest"), F.mean("amount").alias("mean")
    )
    return StatefulJob(
        APPLICATION,
        by_window.sink("shop-windows"),
        unique.sink("shop-unique"),
        sessions.sink("shop-sessions"),
        attributed.sink("shop-attributed"),
        enriched.sink("shop-enriched"),
        products.sink("shop-products"),
        sizes.sink("shop-sizes"),
        reviews.sink("shop-reviews"),
        stamped.sink("shop-stamped"),
    ).options(max_offsets_per_trigger=20_000)


if __name__ == "__main__":
    if sys.argv[1:] == ["broken"]:
        raise RuntimeError("this job cannot start")
    run(job_of("custmer") if sys.argv[1:] == ["misspelt"] else job_of())
