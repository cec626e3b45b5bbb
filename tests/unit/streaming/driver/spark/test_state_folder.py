""" """

from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_provider.common.host_name import HOST_VARIABLE
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import DiskStatus
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.spark.state_folder import DiskWatch, StateCleanup
from tests.unit.streaming.driver.fakes import Elsewhere, here, settings_in
from tests.waiting import wait_until


def test_disk_is_measured_where_the_stores_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST_VARIABLE, "h2")
    settings = settings_in(tmp_path, heartbeat_interval_s=0.01)
    directory = StateDirectory(Path(settings.state_dir), settings.application_id)
    directory.database(TaskId(0, 1)).mkdir(parents=True)
    (directory.database(TaskId(0, 1)) / "000001.sst").write_bytes(b"x" * 300)
    (directory.path / "quarantine").mkdir()
    (directory.path / "quarantine" / "other.sst").write_bytes(b"x" * 50)
    reported: list[DiskStatus] = []
    watch = DiskWatch(here(), settings, reported.append)

    watch.start()

    wait_until(lambda: len(reported) > 1, 10, "two looks")
    watch.stop()
    assert (reported[0].folder, reported[0].used_bytes, reported[0].host) == (settings.state_dir, 350, "h2")
    assert reported[0].free_bytes
    assert (watch.store_bytes(TaskId(0, 1)), watch.store_bytes(TaskId(0, 0))) == (300, None)


def test_disk_that_cannot_be_measured_is_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = Elsewhere(lost=True)
    watch = DiskWatch(elsewhere, settings_in(tmp_path, heartbeat_interval_s=0.001), lambda _: None)

    watch.start()

    wait_until(lambda: elsewhere.calls > 2, 10, "some looks")
    watch.stop()
    assert caplog.text.count("cannot be measured") == 1


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
