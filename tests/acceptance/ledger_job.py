"""The job of the acceptance run: one output for every record, and a state that depends on all records and their order.

What comes out can be computed from the input alone (`tests.chaos.judge`).
"""

import zlib
from collections.abc import Iterator
from typing import Any

from airflow_provider.streaming import StatefulJob, ValueState, run, stream


def post(account: str, rows: list[dict[str, Any]], state: ValueState) -> Iterator[dict[str, Any]]:
    """Chain each record to those before it; an amount of zero closes the account, which forgets it."""
    balance = state.get() or {"count": 0, "sum": 0, "chain": 0}
    for row in rows:
        link = f"{row['seq']}:{row['amount']}".encode()
        balance = {
            "count": balance["count"] + 1,
            "sum": balance["sum"] + row["amount"],
            "chain": zlib.crc32(link, balance["chain"]),
        }
        yield {"seq": row["seq"], **balance}
        if row["amount"] == 0:
            balance = {"count": 0, "sum": 0, "chain": 0}
    if balance["count"]:
        state.update(balance)
    else:
        state.clear()


entries = stream("ledger-input", schema="account STRING, seq BIGINT, amount BIGINT")
posted = entries.group_by("account", trust_partitioning=True).process(post, columns=["seq", "amount"])  # spread by hand
job = (
    StatefulJob("ledger", posted.sink("ledger-output"))
    .on_error("dead_letter", "ledger-dead-letters")
    .options(allow_faults=True)
)

if __name__ == "__main__":
    run(job)
