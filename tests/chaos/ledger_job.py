"""The job under chaos: one output for every record, and a state that depends on every record and on their order.

A record may ask for a fault: an error with a text of so many characters, or an output or a state that is larger than
its topic takes. It is then left out whole, and kept as a dead letter. Started with the name of a variant, it is a job
that cannot start, or one that would misread the state.
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from airflow_provider.streaming import StatefulJob, ValueState, run, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table

CHANGES: Final = ("version", "key", "operation")
"""Variants that mean something else by the state."""
ERROR_CHARS: Final = 5_000_000


def post(account: str, rows: list[dict[str, Any]], state: ValueState) -> Iterator[dict[str, Any]]:
    """Chain each record to those before it; an amount of zero closes the account, which forgets it."""
    balance = state.get() or {"count": 0, "sum": 0, "chain": 0}
    for row in rows:
        text = "x" * (row["chars"] or 0)
        if row["fault"] == "error":
            raise ValueError(text)
        link = f"{row['seq']}:{row['amount']}".encode()
        balance = balance | {
            "count": balance["count"] + 1,
            "sum": balance["sum"] + row["amount"],
            "chain": zlib.crc32(link, balance["chain"]),
        }
        note = {"note": text} if row["fault"] == "output" else {}
        yield {"seq": row["seq"], **{name: balance[name] for name in ("count", "sum", "chain")}, **note}
        if row["amount"] == 0:
            balance = balance | {"count": 0, "sum": 0, "chain": 0}
        if row["fault"] == "state":
            # It stays too large whatever follows in its batch, so that where batches end does not matter.
            balance = balance | {"note": text}
    if balance["count"] or "note" in balance:
        state.update(balance)
    else:
        state.clear()


_read = stream("ledger-input", schema="account STRING, seq BIGINT, amount BIGINT, fault STRING, chars BIGINT")
_COLUMNS = ["seq", "amount", "fault", "chars"]


def _written(result: Stream | Table) -> StatefulJob:
    job = StatefulJob("ledger", result.sink("ledger-output")).on_error("dead_letter", "ledger-dead-letters")
    return job.options(max_offsets_per_trigger=20_000, allow_faults=True)


# Its records are spread by hand.
_by_account = _read.group_by("account", trust_partitioning=True)
job = _written(_by_account.process(post, columns=_COLUMNS, name="state"))


def _broken() -> StatefulJob:
    raise RuntimeError("this job cannot start: " + "x" * ERROR_CHARS)


VARIANTS: Final[dict[str, Callable[[], StatefulJob]]] = {
    "version": lambda: _written(_by_account.process(post, columns=_COLUMNS, version=2, name="state")),
    "key": lambda: _written(
        _read.group_by("seq", trust_partitioning=True).process(post, columns=_COLUMNS, name="state")
    ),
    "operation": lambda: _written(
        _by_account.aggregate(F.count().alias("count"), F.sum("amount").alias("sum"), name="state")
    ),
    "broken": _broken,
    "misspelt": lambda: _written(_read.group_by("acount").process(post, columns=_COLUMNS, name="state")),
}

if __name__ == "__main__":
    run(VARIANTS[sys.argv[1]]() if sys.argv[1:] else job)
