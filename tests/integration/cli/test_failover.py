"""Failures are answered, and looked into, by the commands, over a real broker."""

from __future__ import annotations

import json
import os
import signal

import pytest

from airflow_provider.cli.main import main
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.history import HistoryOutcome
from tests.builders import placed
from tests.integration.launch.application import Application


def test_instance_that_hangs_is_answered_once_and_described(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)
    assert main(["failover", *at, "--instance-timeout", "2"]) == 0
    assert capsys.readouterr().out == "nothing is wrong that a failover could answer\n"

    os.kill(application.view().statuses["a"].process.pid, signal.SIGSTOP)
    assert main(["failover", *at, "--instance-timeout", "2", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("a dry run")
    assert "heartbeat_missed" in said
    before = application.view().assignment
    assert before is not None
    assert placed(before) == ["a b", "b a"]

    assert main(["failover", *at, "--instance-timeout", "2", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["instance"], answer["moved"], answer["generation"]) == ("a", {"0_0": "b"}, 2)
    assert main(["failover", *at, "--instance-timeout", "2"]) == 0
    assert capsys.readouterr().out == "nothing is wrong that a failover could answer\n"

    assert main(["describe", *at, "0_0", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert (known["active"], known["active_since_generation"]) == ("b", 2)
    assert [record["generation"] for record in known["incidents"]] == [2]
    assert main(["describe", *at, "c"]) == 1
    assert "no instance and no task 'c'" in capsys.readouterr().err


def test_everything_is_moved_off_an_instance_that_is_named(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)

    assert main(["failover", *at, "--instance", "a"]) == 0
    assert "moved by hand" in capsys.readouterr().out

    found = application.view().assignment
    assert found is not None
    assert found.active_on("a") == ()
    assert main(["failover", *at, "--instance", "c"]) == 1


def test_incident_that_is_answered_and_repaired_is_resolved(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)

    soon = (*at, "--instance-timeout", "2")
    assert main(["failover", *soon, "--instance", "a"]) == 0
    assert main(["assign", *at, "--standbys", "2"]) == 0
    assert "not resolved yet" in capsys.readouterr().err
    assert [record.resolved_at_ms for record in application.view().incidents.values()] == [None]

    assert main(["assign", *at, "--no-wait"]) == 0
    assert [record.resolved_at_ms for record in application.view().incidents.values()] == [None]
    assert main(["assign", *at]) == 0

    (record,) = application.view().incidents.values()
    assert record.resolved_at_ms is not None
    assert record.recovery is not None
    assert "resolved: a/" in capsys.readouterr().err
    (kept,) = read_history(application.connection, application.id)
    assert (kept.outcome, kept.ended_at_ms) == (HistoryOutcome.PASSED, record.resolved_at_ms)

    assert main(["failover", *soon, "--instance", "b", "--standbys", "0", "--wait", "60"]) == 0
    assert all(record.resolved_at_ms is not None for record in application.view().incidents.values())
