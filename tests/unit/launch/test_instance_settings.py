from __future__ import annotations

import dataclasses
import json
import stat
from pathlib import Path

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_settings import InstanceSettings

SETTINGS = InstanceSettings(
    application_id="orders",
    instance="i1",
    incarnation=1_700_000_000_000,
    state_dir="/var/state",
    run_dir="/var/run/i1",
    connection=KafkaConnection(
        "one:9093", security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="user", sasl_password="secret"
    ),
    fail_points=("commit.begun@2",),
)


def test_reads_back_the_same_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "run" / "instance.json"

    SETTINGS.write(file)

    assert InstanceSettings.read(file) == SETTINGS
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_password_is_never_shown() -> None:
    assert "secret" not in repr(SETTINGS)


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff"], ids=["missing", "empty", "other", "no-text"])
def test_file_that_holds_no_settings_is_refused(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "instance.json"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigurationError, match="deploy the instance again"):
        InstanceSettings.read(file)


def test_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "instance.json"
    SETTINGS.write(file)
    found = json.loads(file.read_text())
    file.write_text(json.dumps({**found, "version": found["version"] + 1, "instance": ["of", "another", "type"]}))

    with pytest.raises(ConfigurationError, match=r"holds version 2 .* reads up to version 1: install the release"):
        InstanceSettings.read(file)


@pytest.mark.parametrize(
    "changes",
    [{"instance": "i/1"}, {"application_id": ""}, {"heartbeat_interval_s": 0.0}],
    ids=["instance", "application", "heartbeat"],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        dataclasses.replace(SETTINGS, **changes)  # type: ignore[arg-type]
