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
from airflow_provider.common.task_id import TaskId
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.streaming.planner.stage_spec import StageSpec, StoreSpec
from airflow_provider.streaming.worker.standby import task_snapshots
from airflow_provider.streaming.worker.standby.task_snapshots import TaskSnapshots
from airflow_provider.streaming.worker.tasks.task import Task
from tests.builders import standby
from tests.waiting import wait_until

# Nobody listens there: what asks for the changelog's id fails.
NOWHERE = KafkaConnection("127.0.0.1:1")
DAY_MS = 24 * 3_600_000
STORE = StoreSpec(name="state", changelog="app-state-changelog", delete_retention_ms=DAY_MS)


class FakeStandby:
    """At the end of its changelog."""

    def __init__(self, folder: Path) -> None:
        self.path, self.changelog = folder / "0_0" / "state", "app-state-changelog"
        self.job = SimpleNamespace(application_id="app", changelog=STORE.changelog, store=STORE)
        self.reached_end = True
        at = ChangelogPosition(offset=10, complete_at_ms=1)
        self.position: Position | None = Position(changelogs={"app-state-changelog": at}, commit=b"{}")
        self.checkpoints: list[Path] = []

    @property
    def replica(self) -> FakeStandby:
        return self

    @property
    def store(self) -> FakeStandby:
        return self

    def checkpoint(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.checkpoints.append(folder)

    def estimate_num_keys(self, name: str) -> int:
        assert name == "state"
        return 1


@pytest.fixture
def task(tmp_path: Path) -> FakeStandby:
    return FakeStandby(tmp_path)


@pytest.fixture
def settings(tmp_path: Path) -> SnapshotSettings:
    return SnapshotSettings(f"file://{tmp_path}/remote", interval_s=3600)


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> TaskSnapshots:
    ids = {"app-state-changelog": "topic-id"}
    monkeypatch.setattr(TopicAdmin, "ids", lambda *_: ids)
    return TaskSnapshots(NOWHERE, "i2", TaskId(0, 0))


def tick_until_reported(snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings) -> Any:
    def reported() -> Any:
        snapshots.tick(cast(Task, task), settings, trustworthy=True)
        status = snapshots.with_snapshot_status(standby(0))
        return status if status.snapshot.error or status.snapshot.position is not None else None

    return wait_until(reported, 10, "an end of the sending")


def test_snapshot_is_sent_once_an_interval_and_its_checkpoint_removed(
    snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings
) -> None:
    status = tick_until_reported(snapshots, task, settings)
    for _ in range(3):
        snapshots.tick(cast(Task, task), settings, trustworthy=True)

    assert (status.snapshot.position, status.snapshot.error) == (10, None)
    (checkpoint,) = task.checkpoints
    assert not checkpoint.exists()


def test_snapshot_that_is_asked_for_is_taken_once_though_none_is_due_and_nothing_is_new(
    snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings
) -> None:
    first = tick_until_reported(snapshots, task, settings)

    def asked() -> Any:
        snapshots.tick(cast(Task, task), settings, True, "c1")
        status = snapshots.with_snapshot_status(standby(0))
        return status if status.snapshot.at_ms != first.snapshot.at_ms else None

    assert wait_until(asked, 10, "another snapshot").snapshot.position == 10
    for _ in range(3):
        snapshots.tick(cast(Task, task), settings, True, "c1")
    assert len(task.checkpoints) == 2
    task.reached_end = False
    snapshots.tick(cast(Task, task), settings, True, "c2")
    assert len(task.checkpoints) == 2  # not of a store that is behind


@pytest.mark.parametrize("why", ["not-at-the-end", "not-trustworthy", "empty"])
def test_no_snapshot_is_taken_of_a_store_that_is(
    why: str, snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings
) -> None:
    task.reached_end = why != "not-at-the-end"
    if why == "empty":
        task.position = None

    snapshots.tick(cast(Task, task), settings, trustworthy=why != "not-trustworthy")

    assert task.checkpoints == []


@pytest.mark.parametrize(("age_ms", "again"), [(DAY_MS // 8, 0), (DAY_MS // 2, 1)], ids=["young", "getting-old"])
def test_store_that_nothing_came_to_is_sent_again_only_before_its_snapshot_gets_too_old(
    age_ms: int,
    again: int,
    snapshots: TaskSnapshots,
    task: FakeStandby,
    settings: SnapshotSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tick_until_reported(snapshots, task, settings)
    later_ms, later_s = time.time_ns() // 1_000_000 + age_ms, time.monotonic() + 3601
    monkeypatch.setattr(task_snapshots, "now_ms", lambda: later_ms)
    monkeypatch.setattr(time, "monotonic", lambda: later_s)

    snapshots.tick(cast(Task, task), settings, trustworthy=True)

    assert len(task.checkpoints) == 1 + again


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_works_at_is_not(
    snapshots: TaskSnapshots, task: FakeStandby, settings: SnapshotSettings
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [task.path.with_name(f"state.{kind}-{dead.pid}") for kind in ("incoming", "outgoing")]
    living = task.path.with_name(f"state.outgoing-{os.getppid()}")
    for folder in (*left, living):
        folder.mkdir(parents=True)

    snapshots.tick(cast(Task, task), settings, trustworthy=True)

    assert [folder.exists() for folder in (*left, living)] == [False, False, True]


def fetched(snapshots: TaskSnapshots, settings: SnapshotSettings | None, path: Path, high: int) -> str | None:
    job = SimpleNamespace(application_id="app", changelog=STORE.changelog, store=STORE, snapshots=settings)
    reader = SimpleNamespace(bounds=lambda _: (0, high))
    wait_until(
        lambda: not snapshots.restoring(cast(StageSpec, job), path, cast(ChangelogReader, reader)), 10, "the end of it"
    )
    return snapshots.with_snapshot_status(standby(0)).restore.source


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
    monkeypatch.setattr(TopicAdmin, "ids", lambda *_: nothing)

    assert fetched(snapshots, settings, tmp_path / "state", 10) == "the changelog (KeyError: 'app-state-changelog')"
