"""The job that the instances of these tests run: one output for every order; an order of nothing closes the account."""

import ctypes
import sys
from collections.abc import Iterator
from typing import Any

from airflow_provider.streaming import InMemory, RocksDBOptions, StatefulJob, ValueState, run, stream


def book(account: str, rows: list[dict[str, Any]], state: ValueState) -> Iterator[dict[str, Any]]:
    """Count and add up, until the account is closed."""
    if account == "deaf":
        ctypes.PyDLL(None).sleep(3600)  # unlike CDLL it holds the GIL: no other thread runs, no signal is seen
    count, total = state.get() or (0, 0)
    for row in rows:
        cents = row["cents"] if "cents" in row else row["amount"] * 100
        count, total = count + 1, total + cents
        yield {"count": count, "total": total}
        if cents == 0:
            count, total = 0, 0
    if count:
        state.update([count, total])
    else:
        state.clear()


if __name__ == "__main__":
    application_id, in_memory, plain = sys.argv[1], "memory" in sys.argv, "plain" in sys.argv
    orders = stream(f"{application_id}-orders", schema="account STRING, amount BIGINT")
    if not plain:  # Spark reads it for its steps
        orders = orders.filter("account IS NOT NULL", name="no_account").with_column("cents", "amount * 100")
    job = StatefulJob(
        application_id,
        orders.group_by("account", trust_partitioning=True)  # its records are spread by hand
        .process(book, columns=["amount" if plain else "cents"], name="state")
        .sink(f"{application_id}-totals"),
    ).options(
        max_offsets_per_trigger=400,
        allow_faults=True,
        worker_reads=plain,
        stores={"state": InMemory() if in_memory else RocksDBOptions()},
    )
    run(job)
