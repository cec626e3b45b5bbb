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
        count, total = count + 1, total + row["cents"]
        yield {"count": count, "total": total}
        if row["cents"] == 0:
            count, total = 0, 0
    if count:
        state.update([count, total])
    else:
        state.clear()


if __name__ == "__main__":
    application_id, in_memory = sys.argv[1], sys.argv[2:] == ["memory"]
    job = StatefulJob(
        application_id,
        stream(f"{application_id}-orders", schema="account STRING, amount BIGINT")
        .filter("account IS NOT NULL", name="no_account")
        .with_column("cents", "amount * 100")
        .group_by("account", trust_partitioning=True)  # its records are spread by hand
        .process(book, columns=["cents"], name="state")
        .sink(f"{application_id}-totals"),
    ).options(
        max_offsets_per_trigger=400,
        allow_faults=True,
        stores={"state": InMemory() if in_memory else RocksDBOptions()},
    )
    run(job)
