from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.connection import KafkaConnection
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.state.position import Position
from airflow_provider.streaming.plan import JobSpec
from airflow_provider.streaming.task import Task
from airflow_provider.streaming.task_snapshots import TaskSnapshots
from tests.builders import standby
from tests.waiting import wait_until

# Nobody listens there: what asks for the changelog's id fails.
NOWHERE = KafkaConnection("127.0.0.1:1")
DAY_MS = 24 * 3_600_000


class FakeStore:
    def __init__(self) -> None:
        self.position: Position | None = Position(10, b"{}", "app-state-changelog", 1, 1)
        self.checkpoints: list[Path] = []

    def checkpoint(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.checkpoints.append(folder)

    def about_keys(self) -> int:
        return 1


class FakeStandby:
    def __init__(self, folder: Path) -> None:
        self.path, self.changelog = folder / "task-0" / "state", "app-state-changelog"
        self.job = SimpleNamespace(application_id="app", store="state", delete_retention_ms=DAY_MS)
        self.replica = SimpleNamespace(reached_end=True, store=FakeStore())


@pytest.fixture
def task(tmp_path: Path) -> FakeStandby:
    return FakeStandby(tmp_path)


@pytest.fixture
def settings(tmp_path: Path) -> SnapshotSettings:
    return SnapshotSettings(f"file://{tmp_path}/remote", interval_s=3600)


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> TaskSnapshots:
    ids = {"app-state-changelog": "topic-id"}
    monkeypatch.setattr("airflow_provider.streaming.task_snapshots.TopicAdmin.ids", lambda *_: ids)
    return TaskSnapshots(NOWHERE, "i2", 0)


def mind_until_told(snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings) -> Any:
    def told() -> Any:
        snapshots.mind(cast(Task, task), settings, trustworthy=True)
        status = snapshots.told(standby(0))
        return status if status.snapshot_error or status.snapshot_position is not None else None

    return wait_until(told, 10, "an end of the sending")


def test_snapshot_is_sent_once_an_interval_and_its_checkpoint_removed(
    snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings
) -> None:
    status = mind_until_told(snapshots, task, settings)
    for _ in range(3):
        snapshots.mind(cast(Task, task), settings, trustworthy=True)

    assert (status.snapshot_position, status.snapshot_error) == (10, None)
    (checkpoint,) = task.replica.store.checkpoints
    assert not checkpoint.exists()


@pytest.mark.parametrize("why", ["not-at-the-end", "not-trustworthy", "empty"])
def test_no_snapshot_is_taken_of_a_store_that_is(
    why: str, snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings
) -> None:
    task.replica.reached_end = why != "not-at-the-end"
    if why == "empty":
        task.replica.store.position = None

    snapshots.mind(cast(Task, task), settings, trustworthy=why != "not-trustworthy")

    assert task.replica.store.checkpoints == []


@pytest.mark.parametrize(("age_ms", "again"), [(DAY_MS // 8, 0), (DAY_MS // 2, 1)], ids=["young", "getting-old"])
def test_store_that_nothing_came_to_is_sent_again_only_before_its_snapshot_gets_too_old(
    age_ms: int,
    again: int,
    snapshots: TaskSnapshots,
    task: FakeStandby,
    settings: SnapshotSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mind_until_told(snapshots, task, settings)
    later_ms, later_s = time.time_ns() // 1_000_000 + age_ms, time.monotonic() + 3601
    monkeypatch.setattr("airflow_provider.streaming.task_snapshots._now_ms", lambda: later_ms)
    monkeypatch.setattr("airflow_provider.streaming.task_snapshots.time.monotonic", lambda: later_s)

    snapshots.mind(cast(Task, task), settings, trustworthy=True)

    assert len(task.replica.store.checkpoints) == 1 + again


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_works_at_is_not(
    snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [task.path.with_name(f"state.{kind}-{dead.pid}") for kind in ("incoming", "outgoing")]
    living = task.path.with_name(f"state.outgoing-{os.getppid()}")
    for folder in (*left, living):
        folder.mkdir(parents=True)

    snapshots.mind(cast(Task, task), settings, trustworthy=True)

    assert [folder.exists() for folder in (*left, living)] == [False, False, True]


def fetched(snapshots: TaskSnapshots, settings: SnapshotSettings | None, path: Path, high: int) -> str | None:
    job = SimpleNamespace(application_id="app", store="state", delete_retention_ms=DAY_MS, snapshots=settings)
    reader = SimpleNamespace(bounds=lambda _: (0, high))
    wait_until(
        lambda: not snapshots.restoring(cast(JobSpec, job), path, cast(ChangelogReader, reader)), 10, "the end of it"
    )
    return snapshots.told(standby(0)).restored_from


def test_store_is_restored_from_the_changelog_where_there_is_no_snapshot(
    snapshots: TaskSnapshots, settings: SnapshotSettings, tmp_path: Path
) -> None:
    assert fetched(snapshots, settings, tmp_path / "state", 10) == "the changelog (there is no snapshot)"


@pytest.mark.parametrize(
    ("wanted", "there", "high"),
    [
        pytest.param(False, False, 10, id="snapshots-are-off"),
        pytest.param(True, True, 10, id="the-store-is-there"),
        pytest.param(True, False, 0, id="the-changelog-is-empty"),
    ],
)
def test_nothing_is_fetched_when(
    wanted: bool, there: bool, high: int, snapshots: TaskSnapshots, settings: SnapshotSettings, tmp_path: Path
) -> None:
    if there:
        (tmp_path / "state").mkdir()

    assert fetched(snapshots, settings if wanted else None, tmp_path / "state", high) is None


def test_whatever_goes_wrong_the_changelog_restores_the_store(
    snapshots: TaskSnapshots, settings: SnapshotSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: dict[str, str] = {}
    monkeypatch.setattr("airflow_provider.streaming.task_snapshots.TopicAdmin.ids", lambda *_: nothing)

    assert fetched(snapshots, settings, tmp_path / "state", 10) == "the changelog (KeyError: 'app-state-changelog')"
