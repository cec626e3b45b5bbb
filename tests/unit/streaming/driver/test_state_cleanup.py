from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.state_cleanup import StateCleanup
from tests.unit.streaming.driver.fakes import Elsewhere, here
from tests.waiting import wait_until


def test_stores_of_tasks_that_left_are_removed_while_the_instance_goes_on(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    for task in (0, 1):
        directory.database(TaskId(0, task)).mkdir(parents=True)
    cleanup = StateCleanup(here(), directory, after_ms=1, interval_s=0.0)
    cleanup.tick(lambda: [TaskId(0, 0)])
    time.sleep(0.003)

    cleanup.tick(lambda: [TaskId(0, 0)])

    wait_until(lambda: [path.name for path in directory.path.iterdir()] == ["0_0"], 10.0, "the removal")


def test_it_looks_again_only_after_the_interval(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    cleanup = StateCleanup(here(), directory, after_ms=1)
    cleanup.tick(list)
    directory.database(TaskId(0, 0)).mkdir(parents=True)

    cleanup.tick(list)

    assert [path.name for path in (directory.path / "0_0").iterdir()] == ["rocksdb"]


def test_disk_that_refuses_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = StateDirectory(tmp_path, "app")
    (directory.path / "0_0").mkdir(parents=True)
    (directory.path / "0_0" / "unassigned").mkdir()

    StateCleanup(here(), directory, after_ms=1).tick(list)

    assert "cannot be removed" in caplog.text


def test_stores_on_an_executors_host_are_removed_there(tmp_path: Path) -> None:
    directory, elsewhere = StateDirectory(tmp_path, "app"), Elsewhere()
    directory.database(TaskId(0, 0)).mkdir(parents=True)
    cleanup = StateCleanup(elsewhere, directory, after_ms=1, interval_s=0.0)

    def gone() -> bool:
        cleanup.tick(list)
        return not list(directory.path.iterdir())

    wait_until(gone, 10.0, "the removal")
    assert elsewhere.threads == {"state-cleanup"}


def test_executor_that_is_lost_stops_no_cleanup(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = Elsewhere(lost=True)
    cleanup = StateCleanup(elsewhere, StateDirectory(tmp_path, "app"), after_ms=1, interval_s=0.0)

    def tried_twice() -> bool:
        cleanup.tick(list)
        return caplog.text.count("cannot be removed") > 1

    wait_until(tried_twice, 10.0, "two looks")
