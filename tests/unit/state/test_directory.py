from __future__ import annotations

from pathlib import Path

from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.position import Position
from airflow_provider.state.store import Store


def test_store_lies_in_a_folder_of_its_application_and_task(tmp_path: Path) -> None:
    assert StateDirectory(tmp_path, "orders").store(3, "state") == tmp_path / "orders" / "task-3" / "state"


def test_store_that_is_put_aside_keeps_all_and_leaves_its_place_empty(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    path = directory.store(3, "state")
    store = Store(path)
    store.write([(b"a", b"1")], Position(1, None, "c"))
    store.close()

    aside = directory.quarantine(3, "state")

    assert aside is not None
    assert aside.parent == tmp_path / "orders" / "quarantine"
    assert aside.name.endswith("-task-3-state")
    assert not path.exists()
    kept, fresh = Store(aside), Store(path)
    assert kept.get_many([b"a"]) == [b"1"]
    assert fresh.position is None
    kept.close()
    fresh.close()


def test_stores_put_aside_one_after_the_other_do_not_meet(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    for _ in range(3):
        directory.store(0, "state").mkdir(parents=True)
        directory.quarantine(0, "state")

    assert len(list((directory.path / "quarantine").iterdir())) == 3


def test_nothing_is_put_aside_where_nothing_is(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")

    assert directory.quarantine(0, "state") is None
    assert not (directory.path / "quarantine").exists()


def test_last_replay_is_remembered_for_whoever_comes(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    directory.store(0, "state").mkdir(parents=True)
    assert directory.replayed(0, "state") is None

    directory.note_replay(0, "state", "replay-1")
    directory.quarantine(0, "state")

    assert StateDirectory(tmp_path, "orders").replayed(0, "state") == "replay-1"
