"""Instances without Spark, started by the real launcher."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from airflow_provider.control.records.status import InstanceState
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import launch
from tests.builders import assigned
from tests.integration.launch.application import FAKE_INSTANCE, Application
from tests.waiting import wait_until


class Launch(Protocol):
    """Start an instance, and wait until it runs."""

    def __call__(self, application: Application, name: str) -> None: ...


@pytest.fixture
def launch_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    started: list[Application] = []

    def launched(application: Application, name: str) -> None:
        incarnation = time.time_ns() // 1_000_000
        settings = InstanceSettings(
            application_id=application.id,
            instance=name,
            incarnation=incarnation,
            state_dir=str(tmp_path / name),
            run_dir=str(tmp_path / "run" / f"{name}-{incarnation}"),
            connection=application.connection,
        )
        launch(settings, [sys.executable, str(FAKE_INSTANCE)])
        started.append(application)

        def runs() -> bool:
            status = application.view().statuses.get(name)
            return status is not None and status.incarnation == incarnation and status.state is InstanceState.RUNNING

        wait_until(runs, 30.0, f"{name} to run")

    yield launched
    for application in started:
        for status in application.view().statuses.values():
            if status.state.alive and status.process.pid:
                with suppress(ProcessLookupError):
                    os.killpg(os.getpgid(status.process.pid), signal.SIGKILL)


@pytest.fixture
def application(bootstrap_servers: str, application_id: str, launch_instance: Launch) -> Application:
    """Two instances, each active for one task and standby for the other's."""
    application = Application.create(bootstrap_servers, application_id)
    application.publish(assigned("a b", "b a", application_id=application_id))
    for name in ("a", "b"):
        launch_instance(application, name)
    return application
