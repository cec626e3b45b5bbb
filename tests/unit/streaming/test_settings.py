from __future__ import annotations

import dataclasses
import stat
from pathlib import Path

import pytest

from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.settings import InstanceSettings

SETTINGS = InstanceSettings(
    "orders",
    "i1",
    1_700_000_000_000,
    "/var/state",
    "/var/run/i1",
    KafkaConnection("one:9093", "SASL_SSL", "PLAIN", "user", "secret"),
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


@pytest.mark.parametrize(
    "changes",
    [{"instance": "i/1"}, {"application_id": ""}, {"heartbeat_interval_s": 0.0}],
    ids=["instance", "application", "heartbeat"],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        dataclasses.replace(SETTINGS, **changes)  # type: ignore[arg-type]
