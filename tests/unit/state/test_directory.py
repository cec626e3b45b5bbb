from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import time
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.position import Position
from airflow_provider.state.store import Store


def test_database_lies_in_a_folder_of_its_application_and_task(tmp_path: Path) -> None:
    assert StateDirectory(tmp_path, "orders").database(TaskId(0, 3)) == tmp_path / "orders" / "0_3" / "rocksdb"


def test_folder_is_made_and_left_empty_by_the_look_at_it(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "state", "orders")

    directory.check()
    directory.check()

    assert list(directory.path.iterdir()) == []


@pytest.mark.parametrize(
    "blocked", [pytest.param("state", id="the-state-folder"), pytest.param("state/orders", id="the-applications")]
)
def test_folder_that_cannot_be_made_is_refused_with_its_name_and_what_to_do(blocked: str, tmp_path: Path) -> None:
    file = tmp_path / blocked
    file.parent.mkdir(exist_ok=True)
    file.write_text("somebody's")

    with pytest.raises(ConfigurationError) as refused:
        StateDirectory(tmp_path / "state", "orders").check()

    for words in (f"{tmp_path}/state/orders cannot be used on ", "exists" if "/" in blocked else "Not a directory"):
        assert words in str(refused.value)
    assert "state_dir" in str(refused.value)


def test_store_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = StateDirectory(tmp_path, "orders")
    store = directory.database(TaskId(0, 3))
    store.mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != store)  # root may always

    with pytest.raises(ConfigurationError, match=f"Permission denied: '{store}'"):
        directory.check()


@pytest.mark.parametrize(
    ("number", "refused"),
    [
        pytest.param(errno.EROFS, True, id="read-only"),
        pytest.param(errno.EACCES, True, id="not-ours"),
        pytest.param(errno.ENOSPC, False, id="full"),
        pytest.param(errno.EDQUOT, False, id="over-the-quota"),
    ],
)
def test_folder_that_cannot_be_written_is_refused_unless_room_may_come_back(
    number: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> None:
        raise OSError(number, os.strerror(number), str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)

    with pytest.raises(ConfigurationError, match=os.strerror(number)) if refused else contextlib.nullcontext():
        StateDirectory(tmp_path, "orders").check()


def test_store_that_is_put_aside_keeps_all_and_leaves_its_place_empty(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    path = directory.database(TaskId(0, 3))
    store = Store(path, ["state"])
    store.write({"state": [(b"a", b"1")]}, Position())
    store.close()

    aside = directory.quarantine(TaskId(0, 3))

    assert aside is not None
    assert aside.parent == tmp_path / "orders" / "quarantine"
    assert aside.name.endswith("-0_3")
    assert not path.exists()
    kept, fresh = Store(aside, ["state"]), Store(path, ["state"])
    assert kept.get_many("state", [b"a"]) == [b"1"]
    assert fresh.position is None
    kept.close()
    fresh.close()


def test_stores_put_aside_one_after_the_other_do_not_meet(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    for _ in range(3):
        directory.database(TaskId(0, 0)).mkdir(parents=True)
        directory.quarantine(TaskId(0, 0))

    assert len(list((directory.path / "quarantine").iterdir())) == 3


def test_nothing_is_put_aside_where_nothing_is(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")

    assert directory.quarantine(TaskId(0, 0)) is None
    assert not (directory.path / "quarantine").exists()


def test_last_replay_is_remembered_for_the_next_owner(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    directory.database(TaskId(0, 0)).mkdir(parents=True)
    assert directory.replayed(TaskId(0, 0)) is None

    directory.note_replay(TaskId(0, 0), "replay-1")
    directory.quarantine(TaskId(0, 0))

    assert StateDirectory(tmp_path, "orders").replayed(TaskId(0, 0)) == "replay-1"


def put_aside(directory: StateDirectory, task: int, size: int) -> Path:
    directory.database(TaskId(0, task)).mkdir(parents=True)
    (directory.database(TaskId(0, task)) / "data").write_bytes(b"x" * size)
    aside = directory.quarantine(TaskId(0, task))
    assert aside is not None
    return aside


def test_oldest_in_quarantine_are_destroyed_when_there_are_too_many(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    aside = [put_aside(directory, task, 10) for task in (0, 1, 0)]

    assert directory.prune([TaskId(0, 0), TaskId(0, 1)], max_stores=1, max_bytes=1000) == (
        aside[0],
        aside[1],
    )
    assert [path.exists() for path in aside] == [False, False, True]


def test_oldest_in_quarantine_are_destroyed_when_they_are_too_large(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    aside = [put_aside(directory, 0, 600), put_aside(directory, 0, 600)]

    assert directory.prune([TaskId(0, 0)], max_stores=10, max_bytes=1000) == (aside[0],)
    assert aside[1].exists()


def test_bad_store_is_kept_until_its_successor_is_whole(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    aside = [put_aside(directory, task, 10) for task in (0, 1)]

    assert directory.prune([TaskId(0, 1)], max_stores=0, max_bytes=0) == (aside[1],)
    assert aside[0].exists()


def test_of_a_task_that_is_restored_in_vain_the_largest_and_the_newest_are_kept(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    aside = [put_aside(directory, 0, size) for size in (10, 90, 20, 90, 20)]

    assert directory.prune([], max_stores=4, max_bytes=1000) == (aside[0],)
    assert directory.prune([], max_stores=0, max_bytes=0) == (aside[2], aside[3])
    assert [path.exists() for path in aside] == [False, True, False, False, True]


def test_tasks_are_those_of_which_a_database_lies_there(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    for task in (TaskId(0, 11), TaskId(0, 2), TaskId(1, 0)):
        directory.database(task).mkdir(parents=True)
    directory.quarantine(TaskId(0, 2))
    directory.shadow(TaskId(0, 5), "state").mkdir(parents=True)

    assert directory.tasks() == [TaskId(0, 11), TaskId(1, 0)]


HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


def with_stores(tmp_path: Path, *tasks: int) -> StateDirectory:
    directory = StateDirectory(tmp_path, "orders")
    for task in tasks:
        directory.database(TaskId(0, task)).mkdir(parents=True)
    return directory


def tasks_in(directory: StateDirectory) -> list[str]:
    return sorted(path.name for path in directory.path.glob("*_*"))


def retire(directory: StateDirectory, held: list[int], now_ms: int) -> bool:
    found = directory.retire([TaskId(0, task) for task in held], HOUR_MS, now_ms)
    directory.empty_removed()
    return found


def test_store_of_a_task_that_left_goes_after_its_time_and_not_before(tmp_path: Path) -> None:
    directory = with_stores(tmp_path, 0, 1)

    assert not retire(directory, [0], NOW_MS)
    assert not retire(directory, [0], NOW_MS + HOUR_MS)
    assert tasks_in(directory) == ["0_0", "0_1"]

    assert retire(StateDirectory(tmp_path, "orders"), [0], NOW_MS + HOUR_MS + 1)
    assert tasks_in(directory) == ["0_0"]
    assert sorted(path.name for path in directory.path.iterdir()) == ["0_0"]


def test_time_begins_anew_when_the_task_was_back_in_between(tmp_path: Path) -> None:
    directory = with_stores(tmp_path, 1)

    retire(directory, [], NOW_MS)
    retire(directory, [1], NOW_MS + HOUR_MS)
    retire(directory, [], NOW_MS + 2 * HOUR_MS)
    retire(directory, [], NOW_MS + 3 * HOUR_MS)

    assert tasks_in(directory) == ["0_1"]


@pytest.mark.parametrize("note", ["", "soon", str(NOW_MS + 9 * HOUR_MS)], ids=["empty", "no-number", "ahead"])
def test_time_begins_anew_where_its_note_cannot_be_right(note: str, tmp_path: Path) -> None:
    directory = with_stores(tmp_path, 1)
    (directory.path / "0_1" / "unassigned").write_text(note)

    retire(directory, [], NOW_MS)
    assert tasks_in(directory) == ["0_1"]
    retire(directory, [], NOW_MS + HOUR_MS + 1)

    assert tasks_in(directory) == []


def test_quarantine_of_a_task_that_left_goes_with_it_and_that_of_others_stays(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    left, held = put_aside(directory, 0, 10), put_aside(directory, 1, 10)
    now_ms = time.time_ns() // 1_000_000
    directory.database(TaskId(0, 0)).mkdir(parents=True)

    retire(directory, [1], now_ms)
    retire(directory, [1], now_ms + HOUR_MS)
    assert left.exists()
    retire(directory, [1], now_ms + HOUR_MS + 1)
    retire(directory, [1], now_ms + HOUR_MS + 60_000)

    assert (left.exists(), held.exists()) == (False, True)


def test_what_is_no_task_is_left_alone(tmp_path: Path) -> None:
    directory = with_stores(tmp_path, 1)
    (directory.path / "my_notes").mkdir()

    retire(directory, [], NOW_MS)
    retire(directory, [], NOW_MS + 2 * HOUR_MS)

    assert [path.name for path in directory.path.iterdir()] == ["my_notes"]


def test_all_of_an_application_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    directory, other = StateDirectory(tmp_path, "orders"), StateDirectory(tmp_path, "payments")
    for task in (0, 11):
        directory.database(TaskId(0, task)).mkdir(parents=True)
    put_aside(directory, 2, 1)
    other.database(TaskId(0, 0)).mkdir(parents=True)

    assert directory.clear() == ()

    assert not directory.path.exists()
    assert other.tasks() == [TaskId(0, 0)]
    assert directory.clear() == ()


def test_what_is_not_the_applications_stays_when_it_is_cleared(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "orders")
    directory.database(TaskId(0, 0)).mkdir(parents=True)
    notes = directory.path / "notes.txt"
    notes.write_text("mine")

    assert directory.clear() == (notes,)

    assert directory.tasks() == []
    assert notes.read_text() == "mine"
