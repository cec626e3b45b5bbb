"""Snapshots that the command asks for, over a real broker."""

from __future__ import annotations

import json

import pytest

from airflow_provider.cli.main import main
from tests.integration.cli.conftest import Launch
from tests.integration.launch.application import Application


def test_standbys_of_every_instance_are_copied_each_time_that_it_is_asked(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)

    for _ in range(2):
        assert main(["snapshot", *at, "--json", "--timeout", "20"]) == 0
        assert json.loads(capsys.readouterr().out) == {"a": {"0_1": 10}, "b": {"0_0": 10}}
    assert main(["snapshot", *at, "--instance", "a", "--task", "0_0"]) == 1
    assert "There is nothing to copy" in capsys.readouterr().err


def test_refusal_is_an_error_with_its_reason(
    launch_instance: Launch,
    application: Application,
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)
    monkeypatch.setenv("NO_SNAPSHOTS", "1")
    launch_instance(application, "b")

    assert main(["snapshot", *at, "--instance", "b"]) == 1
    assert "b refuses: the job takes no snapshots" in capsys.readouterr().err
