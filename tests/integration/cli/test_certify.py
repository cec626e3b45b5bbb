"""Comparisons of standbys that the command asks for, over a real broker."""

from __future__ import annotations

import json

import pytest

from airflow_provider.cli.main import main
from tests.integration.cli.conftest import Launch
from tests.integration.launch.application import Application


def test_standbys_of_every_instance_are_compared_each_time_that_it_is_asked(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)

    for _ in range(2):
        assert main(["certify", *at, "--json", "--timeout", "20"]) == 0
        assert json.loads(capsys.readouterr().out) == {
            "a": {"positions": {"0_1": 10}, "diverged": {}},
            "b": {"positions": {"0_0": 10}, "diverged": {}},
        }
    assert main(["certify", *at, "--instance", "a", "--task", "0_0"]) == 1
    assert "There is nothing to compare" in capsys.readouterr().err
    assert main(["certify", *at, "--instance", "c"]) == 1
    assert "has no instance 'c', but a, b" in capsys.readouterr().err


def test_difference_is_a_no(
    launch_instance: Launch,
    application: Application,
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)
    monkeypatch.setenv("DIVERGES", "1")
    launch_instance(application, "b")

    assert main(["certify", *at, "--timeout", "20"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["a", "0_1", "holds", "the", "same", "at", "10"]
    assert lines[2].split()[:3] == ["b", "0_0", "DIFFERED:"]
