"""The job under chaos: one output for every record, and a state that depends on every record and on their order."""

import zlib
from collections.abc import Iterator
from typing import Any

from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.process import ValueState


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


job = (
    StatefulJob("ledger")
    .source("ledger-input", schema="account STRING, seq BIGINT, amount BIGINT", max_offsets_per_trigger=20_000)
    .group_by("account")
    .process(post, columns=["seq", "amount"])
    .sink("ledger-output")
)

if __name__ == "__main__":
    job.run()
