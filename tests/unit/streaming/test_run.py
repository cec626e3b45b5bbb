from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_settings import INSTANCE_FILE_VARIABLE, InstanceSettings
from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.driver.instance import Instance

JOB = StatefulJob("orders-per-customer", stream("orders").group_by("key").aggregate(F.count(), name="state"))


@pytest.fixture
def deployed_as(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    def write(application_id: str) -> None:
        file = tmp_path / "instance.json"
        InstanceSettings(
            application_id=application_id,
            instance="i1",
            incarnation=1,
            state_dir="s",
            run_dir=str(tmp_path),
            connection=KafkaConnection("broker:9092"),
        ).write(file)
        monkeypatch.setenv(INSTANCE_FILE_VARIABLE, str(file))

    return write


def test_job_that_no_launcher_started_says_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INSTANCE_FILE_VARIABLE, raising=False)

    with pytest.raises(ConfigurationError, match="DeployInstanceOperator"):
        run(JOB)


def test_job_that_was_deployed_as_another_application_is_refused(deployed_as: Callable[[str], None]) -> None:
    deployed_as("other")

    with pytest.raises(ConfigurationError, match="'orders-per-customer', it was deployed as 'other'"):
        run(JOB)


def test_job_whose_snapshots_cannot_be_opened_here_is_refused_before_an_instance_is_made(
    deployed_as: Callable[[str], None], tmp_path: Path
) -> None:
    deployed_as("orders-per-customer")

    with pytest.raises(ConfigurationError, match="protocol 's4' fsspec does not know"):
        run(JOB.snapshots("s4://bucket/x"))
    assert not (tmp_path / "driver").exists()


def test_driver_notes_its_process_for_its_launcher(
    deployed_as: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed_as("orders-per-customer")
    monkeypatch.setattr(Instance, "run", lambda _: 0)

    with pytest.raises(SystemExit):
        run(JOB)

    assert (tmp_path / "driver").read_text() == str(os.getpid())
