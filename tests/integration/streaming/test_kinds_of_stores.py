"""Instances whose store is in memory, and then in RocksDB, on a real Spark and a real broker."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import InstanceState
from tests.integration.streaming.accounts import Accounts

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

BOTH = (0, 1)


@pytest.fixture
def accounts(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Accounts]:
    accounts = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=2, seed=35)
    yield accounts
    accounts.close()


def launch(accounts: Accounts, *names: str) -> None:
    for name in names:
        accounts.launch(name, "local[1]")
    for name in names:
        accounts.wait(lambda name=name: accounts.runs(name), f"{name} to run", 240)  # type: ignore[misc]


def kinds(accounts: Accounts, *names: str) -> set[str]:
    return {task.store_kind for name in names for task in accounts.status(name).tasks}


def test_store_in_memory_fails_over_and_becomes_one_in_rocksdb_and_each_order_counts_once(accounts: Accounts) -> None:
    plain = accounts.job
    accounts.job = (*plain, "memory")
    launch(accounts, "i1", "i2")
    accounts.assign("i1 i2", "i2 i1")
    accounts.wait(accounts.settled, "the tasks to settle", 300)
    accounts.orders.write(1_000, BOTH)
    accounts.check(300)
    accounts.wait(accounts.settled, "the standbys to follow")
    assert kinds(accounts, "i1", "i2") == {"memory"}
    accounts.wait(
        lambda: all(task.memory_bytes for name in ("i1", "i2") for task in accounts.status(name).tasks), "their memory"
    )
    assert not list(accounts.folder.glob("i?/*/*/rocksdb/CURRENT"))

    # A worker dies with all that it held.
    accounts.worker_of("i1", 0).kill()
    accounts.orders.write(500, BOTH)
    accounts.check(300)
    accounts.wait(accounts.settled, "the tasks to be restored", 300)

    # An instance does; the other one has what it needs.
    accounts.orders.write(500, BOTH)
    accounts.signal("i1", signal.SIGKILL)
    accounts.wait_for_state("i1", InstanceState.ENDED)
    accounts.assign("i2", "i2")
    accounts.orders.write(500, BOTH)
    accounts.check(300)
    accounts.wait(accounts.settled, "the tasks to settle", 300)

    # From here on in RocksDB.
    accounts.command(CommandKind.STOP, "i2")
    accounts.wait_for_state("i2", InstanceState.STOPPED, 300)
    accounts.job = plain
    launch(accounts, "i1", "i2")
    accounts.assign("i2 i1", "i1 i2")
    accounts.orders.write(500, BOTH)
    accounts.check(300)
    accounts.wait(accounts.settled, "the tasks to settle", 300)
    assert kinds(accounts, "i1", "i2") == {"rocksdb"}
    assert all(
        accounts.directory(n).database(TaskId(0, t)).joinpath("CURRENT").exists() for n in ("i1", "i2") for t in BOTH
    )
    assert len(list(accounts.folder.glob("i?/*/quarantine/*"))) == 4
