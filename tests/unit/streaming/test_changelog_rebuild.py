"""What a person gives on the command line, on a host where no instance runs any more."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.common.task_id import TaskId
from airflow_provider.state.digest import digest_of
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.store import Store
from airflow_provider.streaming.changelog_rebuild import main

KEYS, VALUES = (b"c1", b"c2"), (b"3", b"4")


@pytest.fixture
def state_dir(tmp_path: Path) -> str:
    """With a copy of task 0_3, whose last commit was the twelfth."""
    commit = CommitRecord(
        application_id="app",
        task=TaskId(0, 3),
        sequence=12,
        generation=7,
        instance="a",
        incarnation=1,
        committed_at_ms=0,
        sources={},
        digests={"state": f"{digest_of(KEYS, VALUES):016x}"},
    )
    path = StateDirectory(tmp_path, "app").database(TaskId(0, 3))
    path.parent.mkdir(parents=True)
    with closing(Store(path, ["state"])) as store:
        at = Position(changelogs={"app-state-changelog": ChangelogPosition(offset=9)}, commit=commit.to_bytes())
        store.write({"state": list(zip(KEYS, VALUES, strict=True))}, at)
    return str(tmp_path)


def test_stores_are_looked_at_with_nothing_but_the_state_folder(
    state_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["app", "--state-dir", state_dir, "--look"]) == 0

    assert capsys.readouterr().out == "task 0_3: 2 keys of commit 12, as its digest says\n"


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
