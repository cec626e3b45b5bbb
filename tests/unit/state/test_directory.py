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


def put_aside(directory: StateDirectory, task: int, size: int) -> Path:
    directory.store(task, "state").mkdir(parents=True)
    (directory.store(task, "state") / "data").write_bytes(b"x" * size)
    aside = directory.quarantine(task, "state")
    assert aside is not None
    return aside


def test_oldest_in_quarantine_are_destroyed_when_there_are_too_many(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    aside = [put_aside(directory, task, 10) for task in (0, 1, 0)]

    assert directory.prune([(0, "state"), (1, "state")], max_stores=1, max_bytes=1000) == (aside[0], aside[1])
    assert [path.exists() for path in aside] == [False, False, True]


def test_oldest_in_quarantine_are_destroyed_when_they_are_too_large(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    aside = [put_aside(directory, 0, 600), put_aside(directory, 0, 600)]

    assert directory.prune([(0, "state")], max_stores=10, max_bytes=1000) == (aside[0],)
    assert aside[1].exists()


def test_bad_store_is_kept_until_its_successor_is_whole(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    aside = [put_aside(directory, task, 10) for task in (0, 1)]

    assert directory.prune([(1, "state")], max_stores=0, max_bytes=0) == (aside[1],)
    assert aside[0].exists()
