from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.common.host_name import HOST_VARIABLE
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import DiskStatus
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.disk_watch import DiskWatch
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
