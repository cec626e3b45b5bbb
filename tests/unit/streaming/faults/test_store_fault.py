"""What befalls the files of a store, and what a worker makes of it, on real stores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.errors import StoreCorruptedError, StoreOutdatedError
from airflow_provider.state.kind import StoreKind
from airflow_provider.state.position import Position
from airflow_provider.streaming import InMemory
from airflow_provider.streaming.faults.fault_injector import corrupt_store, lose_store
from airflow_provider.streaming.worker.tasks.handover import Handover
from airflow_provider.testing.in_memory_clients import InMemoryLog
from tests.unit.streaming.worker.bench import Bench, active, commit_elsewhere, standby
from tests.unit.testing.sqlite_store import SQLiteStore

TASK = TaskId(0, 0)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    log = InMemoryLog()
    commit_elsewhere(log, 0, 1, k=1)
    with closing(Bench(tmp_path, log)) as bench:
        yield bench


def quarantined(bench: Bench) -> list[Path]:
    return list(Path(bench.settings.state_dir).glob("app/quarantine/*"))


@pytest.mark.parametrize("befall", [lose_store, corrupt_store])
def test_each_deed_changes_the_files(befall: Callable[[Path], None], tmp_path: Path) -> None:
    store = tmp_path / "rocksdb"
    store.mkdir()
    (store / "000001.sst").write_bytes(b"keys and values")

    befall(store)

    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*.sst")} != {"000001.sst": b"keys and values"}


def test_store_that_is_removed_under_an_active_fails_its_task_for_a_standby(bench: Bench) -> None:
    backed = active(0, has_standbys=True)
    bench.hold(backed)

    lose_store(bench.registry.tasks[TASK].replica.store.path)
    bench.hold(backed)

    status = bench.registry.status(backed)
    assert (status.state, status.error_kind) == (TaskState.FAILED, "StoreCorruptedError")
    bench.hold(standby(0, generation=2))
    status = bench.registry.status(standby(0, generation=2))
    assert (status.state, status.error) == (TaskState.FOLLOWING, None)
    assert status.restore.records == 2


def test_standby_store_that_is_removed_is_restored_and_never_looks_whole_before(bench: Bench) -> None:
    bench.hold(standby(0))

    lose_store(bench.registry.tasks[TASK].replica.store.path)
    bench.hold(standby(0))
    at_once = bench.registry.status(standby(0))
    bench.hold(standby(0))

    assert (at_once.ready, at_once.error_kind) == (False, "StoreCorruptedError")
    whole = bench.registry.status(standby(0))
    assert (whole.ready, whole.error, whole.restore.records) == (True, None, 2)


def test_store_that_is_damaged_is_closed_found_corrupt_and_restored_where_the_task_goes(bench: Bench) -> None:
    backed = active(0, has_standbys=True)
    bench.hold(backed)
    path = bench.registry.tasks[TASK].replica.store.path

    with closing(Handover(bench.registry.release)) as worker:
        path.with_name("rocksdb.holder").write_text(f"{worker.address}\ni1\n")
        corrupt_store(path)
    assert dict(bench.registry.tasks) == {}
    bench.hold(backed)

    status = bench.registry.status(backed)
    assert (status.state, status.error_kind) == (TaskState.FAILED, "StoreCorruptedError")
    assert len(quarantined(bench)) == 1
    bench.hold(standby(0, generation=2))
    assert bench.registry.status(dataclasses.replace(backed, generation=2)).restore.records == 2
    assert len(quarantined(bench)) == 1


@pytest.mark.parametrize("kind", [InMemory(), SQLiteStore], ids=["memory", "a-users-own"])
@pytest.mark.parametrize("befall", [lose_store, corrupt_store])
def test_store_that_is_not_in_rocksdb_is_lost_and_restored_too(
    befall: Callable[[Path], None], kind: Any, tmp_path: Path
) -> None:
    path = tmp_path / "rocksdb"
    store = StoreKind.of("", kind).open(path, "state")
    store.write({"state": [(b"a", b"1" * 9_000)]}, Position())
    befall(path)
    whole = store.files_there
    store.close()

    if befall is lose_store:
        assert not whole
    else:
        with pytest.raises((StoreCorruptedError, StoreOutdatedError)):
            list(StoreKind.of("", kind).open(path, "state").items("state"))
