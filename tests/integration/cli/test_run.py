"""Instances started by the command, through the real launcher, on a real broker; without Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.cli.main import main
from airflow_provider.control.records.status import InstanceState
from tests.integration.launch.application import FAKE_INSTANCE, Application
from tests.kafka_proxy import KafkaProxy
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        yield run_dir


@pytest.fixture
def arguments(bootstrap_servers: str, application_id: str, tmp_path: Path, spark_submit: Path) -> list[str]:
    options = {
        "--application": application_id,
        "--instance": "a",
        "--bootstrap-servers": bootstrap_servers,
        "--state-dir": str(tmp_path / "a"),
        "--run-dir": str(spark_submit),
        "--conf": "spark.jars=none.jar",
    }
    return ["run", str(FAKE_INSTANCE), *(word for option in options.items() for word in option)]


def test_instance_is_detached_once_it_runs_and_started_once(
    bootstrap_servers: str, application_id: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)

    assert main([*arguments, "--detach"]) == 0
    assert capsys.readouterr().out.endswith(f"a of {application_id} runs\n")
    first = application.view()
    assert first.statuses["a"].state is InstanceState.RUNNING
    assert first.deployments["a"].application == str(FAKE_INSTANCE)

    assert main([*arguments, "--detach"]) == 0
    assert "is running already" in capsys.readouterr().out
    assert main(arguments) == 1  # not in the foreground: it is not this command's
    assert "stop it first" in capsys.readouterr().err
    assert main([*arguments, "--detach", "--env", "DAY=monday"]) == 1
    assert "was deployed otherwise: env_vars['DAY']" in capsys.readouterr().err
    assert application.view().statuses["a"].incarnation == first.statuses["a"].incarnation


def state_of(application: Application) -> InstanceState | None:
    status = application.view().statuses.get("a")
    return None if status is None else status.state


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_instance_in_the_foreground_is_stopped_with_the_command(
    bootstrap_servers: str, application_id: str, arguments: list[str], number: signal.Signals
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    command = subprocess.Popen(
        [sys.executable, "-m", "airflow_provider", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )

    wait_until(lambda: state_of(application) is InstanceState.RUNNING, 60.0, "the instance to run")
    command.send_signal(number)
    said, errors = command.communicate(timeout=60)

    assert (command.returncode, errors.decode().splitlines()[0]) == (0, "stopping; its tasks go to the others")
    assert "its log: " in said.decode()
    assert application.view().statuses["a"].state is InstanceState.STOPPED


def test_instance_in_the_foreground_is_stopped_without_a_broker_too(
    bootstrap_servers: str, application_id: str, arguments: list[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    with KafkaProxy() as proxy:
        proxy.broker_port = int(bootstrap_servers.rpartition(":")[2])
        # What it starts reads the same address, and comes to the broker's own port from there.
        command = subprocess.Popen(
            [sys.executable, "-m", "airflow_provider", *arguments, "--bootstrap-servers", f"127.0.0.1:{proxy.port}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_until(lambda: state_of(application) is InstanceState.RUNNING, 60.0, "it to run")
        proxy.cut()
        command.send_signal(signal.SIGTERM)
        _, errors = command.communicate(timeout=60)

    assert command.returncode == 1
    assert "no broker answers: it is asked by a signal" in errors.decode()
    stopped = InstanceState.STOPPED
    wait_until(lambda: state_of(application) is stopped, 60.0, "it to stop")


def test_instance_that_ends_in_the_foreground_is_an_error(
    bootstrap_servers: str,
    application_id: str,
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Application.create(bootstrap_servers, application_id)
    job = tmp_path / "broken.py"
    job.write_text("raise ValueError('no such column')\n")

    assert main([arguments[0], str(job), *arguments[2:]]) == 1

    said = capsys.readouterr()
    assert "no such column" in said.out  # its log
    assert "InstanceError: 'a' ended without a clean shutdown: ValueError: no such column" in said.err
