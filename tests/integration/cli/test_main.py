"""The command line over a real broker and instances without Spark."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from airflow_provider.cli.main import main
from airflow_provider.common.clock import now_ms
from airflow_provider.control.outlook.metrics_topic import MetricsWriter
from airflow_provider.control.records.incident import Watcher
from airflow_provider.control.records.metrics import metrics_record
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.writer import ControlWriter
from tests.builders import active, assigned, instance, placed
from tests.integration.launch.application import Application


def test_application_is_shown_and_an_instance_stopped_without_airflow(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)

    assert main(["status", *at, "--check"]) == 0
    assert capsys.readouterr().out.endswith("no problems\n")

    assert main(["stop", *at, "a"]) == 0
    assert capsys.readouterr().out == "a is stopped\n"
    found = application.view()
    assert found.assignment is not None
    assert (placed(found.assignment), found.statuses["a"].state) == (["b", "b"], InstanceState.STOPPED)

    assert main(["stop", *at, "b"]) == 0  # no other is left: its tasks wait for it
    capsys.readouterr()
    assert main(["status", *at, "--check", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["problems"][0] == "instance b: stopped"


def test_who_watches_and_how_the_standbys_are_is_shown(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application.id, "--bootstrap-servers", bootstrap_servers)

    assert main(["status", *at]) == 0
    assert capsys.readouterr().out.startswith(f"{application.id}, generation 1, watched by none\n")

    writer = ControlWriter(application.connection, application.id)
    writer.write(Watcher(application_id=application.id, host="h9", pid=7, began_at_ms=1_000, sent_at_ms=2_000))
    writer.close()
    assert main(["certify", *at, "--timeout", "20"]) == 0
    capsys.readouterr()
    assert main(["status", *at, "--standbys"]) == 0
    first, _, header, *rows = capsys.readouterr().out.splitlines()
    assert first.endswith("watched by process 7 on h9 since 1970-01-01T00:00:01+00:00")
    assert [row.split()[:5] for row in rows[:2]] == [["0_0", "b", "warm", "0", "0.0"], ["0_1", "a", "warm", "0", "0.0"]]
    assert header.split()[:2] == ["task", "instance"]

    assert main(["status", *at, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["watcher"]["watches"] is True
    assert [row["certified_position"] for row in found["standbys"]] == [10, 10]
    assert set(found["predicted_rto_ms"]) == {"0_0", "0_1"}


def test_figures_of_now_are_shown_as_prometheus_reads_them(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-servers", bootstrap_servers)

    def figures() -> dict[tuple[str, ...], float]:
        assert main(["metrics", application.id, *at, "--prometheus"]) == 0
        samples = [one for family in text_string_to_metric_families(capsys.readouterr().out) for one in family.samples]
        tags = ("application", "instance", "task", "role", "state")
        return {
            (one.name, *(one.labels[tag] for tag in tags if tag in one.labels)): one.value
            for one in samples
            if "reason" not in one.labels
        }

    whole = figures()
    assert whole[("stateful_streams_application_alive_instances", application.id)] == 2.0
    assert whole[("stateful_streams_application_unprotected_tasks", application.id)] == 0.0
    assert whole[("stateful_streams_task_state", application.id, "a", "0_0", "active", "running")] == 1.0
    assert ("stateful_streams_application_unanswered_incidents", application.id) not in whole

    assert main(["stop", application.id, "a", *at]) == 0
    capsys.readouterr()
    half = figures()
    assert half[("stateful_streams_application_alive_instances", application.id)] == 1.0
    assert half[("stateful_streams_application_unprotected_tasks", application.id)] == 2.0
    assert not [key for key in half if key[2:3] == ("a",)], "nothing is said of what does not live"
    assert main(["stop", application.id, "b", *at]) == 0


def test_what_does_not_exist_is_reported_in_one_line(
    application: Application, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-servers", bootstrap_servers)

    assert main(["stop", application.id, "c", *at]) == 1
    assert "InstanceError" in (said := capsys.readouterr().err)
    assert "has no instance 'c', but a, b" in said
    assert main(["status", f"{application.id}-x", *at]) == 1
    assert "TopicMissingError" in capsys.readouterr().err
    assert (main(["stop", application.id, "a", *at]), main(["stop", application.id, "b", *at])) == (0, 0)


def test_status_is_shown_again_until_ctrl_c(application: Application, bootstrap_servers: str) -> None:
    command = [sys.executable, "-m", "airflow_provider", "status", application.id, "--watch", "0.2", "--json"]
    watching = subprocess.Popen([*command, "--bootstrap-servers", bootstrap_servers], stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None

    looks = [json.loads(watching.stdout.readline()) for _ in range(3)]
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=60)

    assert [look["problems"] for look in looks] == [[], [], []]
    assert watching.returncode == 0


def test_records_that_were_left_out_lately_are_a_problem_by_what_is_kept(
    bootstrap_servers: str, application_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    application.publish(assigned("a", application_id=application_id))
    before, now = (
        dataclasses.replace(instance("a", active(0, late_records=late)), application_id=application_id)
        for late in (3, 8)
    )
    application.write(now)
    metrics = MetricsWriter(application.connection, application_id)
    metrics.send(metrics_record(before, {}, now_ms()))
    metrics.close(30.0)
    at = (application_id, "--bootstrap-servers", bootstrap_servers)
    said = "5 records came too late within the last ten minutes and were left out (task 0_0: 5), 8 since the"

    assert main(["status", *at, "--check", "--listen", "0.1"]) == 3
    assert said in capsys.readouterr().out
    command = [sys.executable, "-m", "airflow_provider", "status", *at, "--watch", "0.2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        look = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
    assert any(said in problem for problem in look["problems"])
