from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.demo import airflow_service
from airflow_provider.demo.airflow_home import AirflowHome
from airflow_provider.demo.airflow_service import AirflowService

HOME = AirflowHome(Path("/demo/airflow"), Path("/repository/dags"), 28_080, "127.0.0.1:29092", "local[2]")


def test_no_component_serves_logs_beyond_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's log servers listen on all addresses, and a second one of a machine fills the log with refusals."""
    commands: list[Sequence[str]] = []

    def child(_name: str, command: Sequence[str], *_: Any, **__: Any) -> object:
        commands.append(command)
        return object()

    monkeypatch.setattr(airflow_service, "Child", child)

    AirflowService(HOME, tmp_path).start()

    serving = [command for command in commands if {"scheduler", "triggerer"} & set(command)]
    assert len(serving) == 2
    assert all("--skip-serve-logs" in command for command in serving)
    assert not {"standalone", "celery"} & {word for command in commands for word in command}
