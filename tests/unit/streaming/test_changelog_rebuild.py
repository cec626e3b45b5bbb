"""What a person gives on the command line, on a host where no instance runs any more."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.state.digest import digest_of
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.kind import StoreKind
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.store import Store
from airflow_provider.streaming.changelog_rebuild import main
from tests.builders import commit_of
from tests.unit.testing.sqlite_store import SQLiteStore

ROCKSDB = StoreKind()
KEYS, VALUES = (b"c1", b"c2"), (b"3", b"4")


def keep(folder: Path, task: TaskId, name: str, changelog: str, keys: int, kind: StoreKind = ROCKSDB) -> None:
    """A copy of a task, whose last commit was the twelfth."""
    pairs = list(zip(KEYS, VALUES, strict=True))[:keys]
    commit = commit_of(
        task=task,
        sequence=12,
        generation=7,
        instance="a",
        digests={name: f"{digest_of([key for key, _ in pairs], [value for _, value in pairs]):016x}"},
    )
    path = StateDirectory(folder, "app").database(task)
    path.parent.mkdir(parents=True)
    with closing(kind.open(path, name)) as store:
        at = Position(changelogs={changelog: ChangelogPosition(offset=9)}, commit=commit.to_bytes())
        store.write({name: pairs}, at)


@pytest.fixture
def state_dir(tmp_path: Path) -> str:
    """With a copy of task 0_3."""
    keep(tmp_path, TaskId(0, 3), "state", "app-state-changelog", 2)
    return str(tmp_path)


def test_tasks_of_several_stages_are_looked_at_each_with_the_store_that_it_keeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path, TaskId(0, 1), "commits", "app-0-commits", 0)
    keep(tmp_path, TaskId(1, 2), "counts", "app-counts-changelog", 2)
    with closing(Store(StateDirectory(tmp_path, "app").database(TaskId(1, 2)), ["counts", "earlier"])):
        pass  # what the job called it before lies there, too

    assert main(["app", "--state-dir", str(tmp_path), "--look"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "task 0_1: 0 keys of commit 12 in 'commits', as its digest says",
        "task 1_2: 2 keys of commit 12 in 'counts', as its digest says",
    ]

    assert main(["app", "--state-dir", str(tmp_path), "--look", "--store", "counts"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "task 0_1: left out, it keeps 'commits'",
        "task 1_2: 2 keys of commit 12 in 'counts', as its digest says",
    ]


def test_stores_are_looked_at_with_nothing_but_the_state_folder(
    state_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["app", "--state-dir", state_dir, "--look"]) == 0

    assert capsys.readouterr().out == "task 0_3: 2 keys of commit 12 in 'state', as its digest says\n"


def test_store_of_a_users_own_is_read_as_what_keeps_it_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = StoreKind.of("", SQLiteStore)
    keep(tmp_path, TaskId(0, 3), "state", "app-state-changelog", 2, kind)

    assert main(["app", "--state-dir", str(tmp_path), "--look"]) == 0

    assert capsys.readouterr().out == "task 0_3: 2 keys of commit 12 in 'state', as its digest says\n"
    with closing(kind.open(StateDirectory(tmp_path, "app").database(TaskId(0, 3)), "state")) as store:
        assert dict(store.items("state")) == dict(zip(KEYS, VALUES, strict=True))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["other"], "no copy of any task of 'other'", id="another-application"),
        pytest.param(["app", "--task", "0_7"], "holds no copy of task 0_7", id="another-task"),
        pytest.param(["app", "--config", "/nowhere"], "/nowhere cannot be read", id="no-config-file"),
        pytest.param(["app/1"], "ConfigurationError", id="no-application-id"),
    ],
)
def test_what_cannot_be_done_is_said_and_the_exit_status_is_1(
    arguments: list[str], words: str, state_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--state-dir", state_dir, "--look"]) == 1

    assert words in capsys.readouterr().err
