from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.streaming import InMemory, RocksDBOptions, StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.testing import JobTester
from tests.unit.testing.sqlite_store import SQLiteStore

KINDS = {"rocksdb": RocksDBOptions(), "memory": InMemory(), "own": SQLiteStore}
of_each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def job_in(kind: Any) -> StatefulJob:
    totals = stream("orders", schema="customer STRING, amount DOUBLE").group_by("customer")
    return StatefulJob(
        "spending", totals.aggregate(F.count().alias("orders"), F.sum("amount").alias("spent")).sink("totals")
    ).options(stores={"totals": kind})


def pay(tester: JobTester, customer: str, amount: float) -> None:
    tester.pipe_input({"customer": customer, "amount": amount})


@of_each_kind
def test_state_goes_on_through_restarts_a_lost_store_and_a_promotion(kind: Any) -> None:
    with JobTester(job_in(kind)) as tester:
        pay(tester, "ann", 1.0)
        tester.restart()
        pay(tester, "ann", 2.0)
        tester.restart(store="empty")
        pay(tester, "bob", 4.0)
        tester.promote_standby()
        pay(tester, "ann", 8.0)

        assert tester.states() == {"ann": {"orders": 3, "spent": 11.0}, "bob": {"orders": 1, "spent": 4.0}}


@of_each_kind
@pytest.mark.parametrize("before", KINDS.values(), ids=[f"from-{kind}" for kind in KINDS])
def test_change_of_kind_loses_nothing(before: Any, kind: Any) -> None:
    with JobTester(job_in(before)) as tester:
        pay(tester, "ann", 1.0)
        tester.restart(job=job_in(kind))
        pay(tester, "ann", 2.0)
        tester.promote_standby()
        pay(tester, "ann", 4.0)

        assert tester.state("ann") == {"orders": 3, "spent": 7.0}
